// The JSON of a request, or its refusal in the form of the route.
#pragma once

#include <functional>
#include <optional>

#include "server/http_message.h"
#include "server/json_fields.h"
#include "server/response_stream.h"

namespace slotstream::server {

// Answers the request with the error, in the form that its route's clients read.
void Refuse(const HttpRequest& request, ResponseStream& response, const ApiError& error);

// Gives the body to `read`, which returns what is wrong with it. True if nothing is; else the
// request was refused.
bool ReadBody(const HttpRequest& request, ResponseStream& response,
              const std::function<std::optional<ApiError>(const Json& body)>& read);

}  // namespace slotstream::server
