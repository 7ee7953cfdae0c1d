// Generating routes: from the HTTP thread to a worker once the model is there.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "server/router.h"
#include "server/service.h"

namespace slotstream::server {

// Whose turn a request takes in the queue: its client's session where it tells one, else itself.
std::string RequestKey(const HttpRequest& request);

// What else the head of a request says to the prefix cache: its session, whether a sub-agent asks,
// and with Cache-Control: no-store that nothing of it may go to disk.
void ReadHints(const HttpRequest& request, engine::Request& generation);

using Answerer =
    std::function<void(Service&, const HttpRequest&, const std::shared_ptr<ResponseStream>&)>;

// Answers POST on `path` with `answer`, on a thread of its own and once the model is loaded. What
// it throws, for want of memory, becomes the answer.
void AddGeneratingRoute(Router& router, Service& service, std::string_view path, Answerer answer);

}  // namespace slotstream::server
