// Who may ask: keys of programs, origins of web pages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/http_message.h"

namespace slotstream::server {

struct AccessOptions {
  std::string api_key;                       // empty: none is asked for
  std::vector<std::string> allowed_origins;  // beside local ones; "*" is any
};

// Immutable and thread-safe.
class AccessPolicy {
 public:
  explicit AccessPolicy(AccessOptions options) : options_(std::move(options)) {}

  // A page may ask if it comes from this machine, from an allowed origin or from this server; what
  // is no page sends no origin. Else any web site that its user visits could use the server. A name
  // in Host proves that the page is the server's own only where a key is asked for: the owner of a
  // name can let it point here (DNS rebinding). An address can't be had that way.
  bool AllowsOrigin(const HttpRequest& head) const;
  // The key as `Authorization: Bearer KEY`, `x-api-key: KEY` or `api-key: KEY`. Takes the same time
  // whatever is wrong.
  bool AcceptsKey(const HttpRequest& head) const;
  // What lets an allowed page read the answer; empty for others.
  std::vector<HttpHeader> CorsHeaders(const HttpRequest& head) const;
  // The answer to a browser's question before the request itself.
  HttpResponse Preflight(const HttpRequest& head) const;

 private:
  AccessOptions options_;
};

// http or https, from localhost, 127.0.0.1, [::1] or 0.0.0.0, any port.
bool IsLocalOrigin(std::string_view origin);
// An address that only this machine reaches.
bool IsLoopbackHost(std::string_view host);

}  // namespace slotstream::server
