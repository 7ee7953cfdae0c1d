// Which handler answers which route.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "server/http_message.h"
#include "server/response_stream.h"

namespace slotstream::server {

// Called on the HTTP thread; what takes long goes through Service::RunWhenLoaded.
using RouteHandler = std::function<void(HttpRequest, const std::shared_ptr<ResponseStream>&)>;

class Router {
 public:
  // A path that ends in "/*" stands for everything below it that has no route of its own.
  void Add(std::string_view method, std::string_view path, RouteHandler handler);

  // The handler of a path, or null. HEAD is answered like GET.
  const RouteHandler* Find(std::string_view method, std::string_view path) const;
  // The methods of a path, as for the header Allow; empty for an unknown path.
  std::string Methods(std::string_view path) const;

 private:
  using MethodMap = std::map<std::string, RouteHandler, std::less<>>;
  const MethodMap* Route(std::string_view path) const;

  std::map<std::string, MethodMap, std::less<>> routes_;
};

}  // namespace slotstream::server
