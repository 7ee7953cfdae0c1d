#include "server/router.h"

#include <utility>

namespace slotstream::server {

void Router::Add(std::string_view method, std::string_view path, RouteHandler handler) {
  routes_[std::string(path)][std::string(method)] = std::move(handler);
}

const Router::MethodMap* Router::Route(std::string_view path) const {
  if (const auto exact = routes_.find(path); exact != routes_.end()) return &exact->second;
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return nullptr;
  const auto below = routes_.find(std::string(path.substr(0, slash)) + "/*");
  return below == routes_.end() ? nullptr : &below->second;
}

const RouteHandler* Router::Find(std::string_view method, std::string_view path) const {
  const MethodMap* route = Route(path);
  if (route == nullptr) return nullptr;
  const auto found = route->find(method == "HEAD" ? "GET" : method);
  return found == route->end() ? nullptr : &found->second;
}

std::string Router::Methods(std::string_view path) const {
  std::string methods;
  const MethodMap* route = Route(path);
  if (route == nullptr) return methods;
  for (const auto& [method, handler] : *route) methods += method + ", ";
  if (route->contains("GET")) methods += "HEAD, ";
  return methods + "OPTIONS";
}

}  // namespace slotstream::server
