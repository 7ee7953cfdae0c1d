// An HTTP request and a whole response, apart from the library that reads and writes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace slotstream::server {

struct HttpHeader {
  std::string name;
  std::string value;
};

struct HttpRequest {
  std::string method;  // as sent, e.g. "POST"
  std::string path;    // see ParseTarget
  std::vector<HttpHeader> headers;
  std::string body;
  std::string id;    // of this request, for answers and logs
  std::string peer;  // the client's address

  // The value of the first header of this name, letters of any case; nothing if there is none.
  std::optional<std::string_view> Header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<HttpHeader> headers;  // beside content type and length
};

// The path that a request target means. Clients are pointed at base URLs with and without /v1, and
// people type slashes: the scheme and host of an absolute target, the query, doubled and trailing
// slashes go; "/v1/v1/x" and, for OpenAI's and Anthropic's routes, "/x" become "/v1/x"; %XX is
// decoded. Always begins with a slash, except for the target "*".
std::string ParseTarget(std::string_view target);

// "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110, 5.6.7).
std::string HttpDate(int64_t unix_seconds);

// "Not Found" of 404.
std::string_view StatusText(int status);

// ASCII letters of any case are equal.
bool EqualsIgnoringCase(std::string_view a, std::string_view b);

}  // namespace slotstream::server
