#include "server/http_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>

namespace slotstream::server {
namespace {

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = Lower(c);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

std::string DecodePercent(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      const int high = HexDigit(text[i + 1]), low = HexDigit(text[i + 2]);
      if (high >= 0 && low >= 0) {
        decoded += static_cast<char>(high * 16 + low);
        i += 2;
        continue;
      }
    }
    decoded += text[i];
  }
  return decoded;
}

// Routes whose /v1 is often left out of, or doubled in, a base URL.
constexpr std::array<std::string_view, 6> kVersioned = {
    "/chat/completions", "/completions", "/responses", "/messages", "/models", "/embeddings"};

bool IsOrIsBelow(std::string_view path, std::string_view route) {
  return path.starts_with(route) && (path.size() == route.size() || path[route.size()] == '/');
}

}  // namespace

std::optional<std::string_view> HttpRequest::Header(std::string_view name) const {
  for (const HttpHeader& header : headers) {
    if (EqualsIgnoringCase(header.name, name)) return header.value;
  }
  return std::nullopt;
}

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return Lower(x) == Lower(y); });
}

std::string ParseTarget(std::string_view target) {
  if (target == "*") return "*";
  if (const size_t scheme = target.find("://");
      scheme != std::string_view::npos && !target.starts_with('/')) {
    const size_t path = target.find('/', scheme + 3);
    target = path == std::string_view::npos ? "/" : target.substr(path);
  }
  target = target.substr(0, target.find_first_of("?#"));
  std::string path = "/";
  for (char c : DecodePercent(target)) {
    if (c != '/' || path.back() != '/') path += c;
  }
  if (path.size() > 1 && path.back() == '/') path.pop_back();
  size_t doubled = 0;
  while (IsOrIsBelow(std::string_view(path).substr(doubled), "/v1/v1")) doubled += 3;
  path.erase(0, doubled);
  for (std::string_view route : kVersioned) {
    if (IsOrIsBelow(path, route)) return "/v1" + path;
  }
  return path;
}

std::string HttpDate(int64_t unix_seconds) {
  constexpr std::array<std::string_view, 7> kDays = {"Sun", "Mon", "Tue", "Wed",
                                                     "Thu", "Fri", "Sat"};
  constexpr std::array<std::string_view, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const auto seconds = static_cast<time_t>(unix_seconds);
  tm time = {};
  if (gmtime_r(&seconds, &time) == nullptr) return {};
  // Not with strftime, whose names follow the locale.
  return fmt::format("{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT",
                     kDays[static_cast<size_t>(time.tm_wday)], time.tm_mday,
                     kMonths[static_cast<size_t>(time.tm_mon)], time.tm_year + 1900, time.tm_hour,
                     time.tm_min, time.tm_sec);
}

std::string_view StatusText(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 413:
      return "Content Too Large";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
  }
  return "Unknown";
}

}  // namespace slotstream::server
