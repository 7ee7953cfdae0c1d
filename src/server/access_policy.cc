#include "server/access_policy.h"

#include <algorithm>
#include <array>

namespace slotstream::server {
namespace {

bool EqualsInConstantTime(std::string_view given, std::string_view key) {
  size_t difference = given.size() ^ key.size();
  for (size_t i = 0; i < given.size(); ++i) {
    difference |= static_cast<unsigned char>(given[i]) ^
                  static_cast<unsigned char>(key[i % std::max<size_t>(key.size(), 1)]);
  }
  return difference == 0;
}

// The origin's page came from that host; https where a proxy in front of this server speaks it.
bool IsPageOf(std::string_view origin, std::string_view host) {
  const size_t scheme = origin.starts_with("https://") ? 8 : 7;
  return (scheme == 8 || origin.starts_with("http://")) && origin.substr(scheme) == host;
}

// An IP address with or without a port, not a name. Names that look like an IPv4 address don't
// resolve: no top-level domain is a number.
bool IsAddress(std::string_view host) {
  if (host.starts_with('[')) return true;
  host = host.substr(0, host.find(':'));
  return !host.empty() && host.find_first_not_of("0123456789.") == std::string_view::npos;
}

}  // namespace

bool IsLocalOrigin(std::string_view origin) {
  for (std::string_view scheme : {"http://", "https://"}) {
    if (!origin.starts_with(scheme)) continue;
    std::string_view host = origin.substr(scheme.size());
    const size_t port = host.starts_with('[') ? host.find(':', host.find(']')) : host.find(':');
    host = host.substr(0, port);
    constexpr std::array<std::string_view, 4> kLocal = {"localhost", "127.0.0.1", "[::1]",
                                                        "0.0.0.0"};
    return std::ranges::any_of(
        kLocal, [host](std::string_view local) { return EqualsIgnoringCase(host, local); });
  }
  return false;
}

bool IsLoopbackHost(std::string_view host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

bool AccessPolicy::AllowsOrigin(const HttpRequest& head) const {
  const auto origin = head.Header("Origin");
  if (!origin || IsLocalOrigin(*origin)) return true;
  if (const auto host = head.Header("Host");
      host && IsPageOf(*origin, *host) && (!options_.api_key.empty() || IsAddress(*host))) {
    return true;
  }
  return std::ranges::any_of(options_.allowed_origins, [&](const std::string& allowed) {
    return allowed == "*" || EqualsIgnoringCase(allowed, *origin);
  });
}

bool AccessPolicy::AcceptsKey(const HttpRequest& head) const {
  if (options_.api_key.empty()) return true;
  bool accepted = false;
  for (std::string_view name : {"x-api-key", "api-key"}) {
    const auto key = head.Header(name);
    accepted |= key && EqualsInConstantTime(*key, options_.api_key);
  }
  constexpr std::string_view kBearer = "Bearer ";
  if (const auto value = head.Header("Authorization");
      value && value->size() > kBearer.size() &&
      EqualsIgnoringCase(value->substr(0, kBearer.size()), kBearer)) {
    accepted |= EqualsInConstantTime(value->substr(kBearer.size()), options_.api_key);
  }
  return accepted;
}

std::vector<HttpHeader> AccessPolicy::CorsHeaders(const HttpRequest& head) const {
  const auto origin = head.Header("Origin");
  if (!origin || !AllowsOrigin(head)) return {};
  return {{"Access-Control-Allow-Origin", std::string(*origin)},
          {"Vary", "Origin"},
          {"Access-Control-Expose-Headers", "X-Request-Id, Retry-After"}};
}

HttpResponse AccessPolicy::Preflight(const HttpRequest& head) const {
  HttpResponse response;
  response.status = 204;
  response.headers.push_back({"Allow", "GET, HEAD, POST, DELETE, OPTIONS"});
  if (!head.Header("Origin")) return response;
  // Clients made with SDKs name a dozen headers of their own; none of them does anything here.
  const auto asked = head.Header("Access-Control-Request-Headers");
  response.headers.push_back({"Access-Control-Allow-Methods", "GET, HEAD, POST, DELETE, OPTIONS"});
  response.headers.push_back(
      {"Access-Control-Allow-Headers",
       asked && !asked->empty() ? std::string(*asked) : "Authorization, Content-Type, X-Api-Key"});
  response.headers.push_back({"Access-Control-Allow-Private-Network", "true"});
  response.headers.push_back({"Access-Control-Max-Age", "86400"});
  return response;
}

}  // namespace slotstream::server
