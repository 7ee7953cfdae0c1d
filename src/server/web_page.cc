// GET /: the page for browsers, Ollama's words for its clients.
#include "server/web_page.h"

#include <string>
#include <utility>

#include "server/routes.h"

namespace slotstream::server {
namespace {

HttpResponse Page(const HttpRequest& request) {
  const WebPage& page = EmbeddedPage();
  HttpResponse response;
  response.headers = {
      {"ETag", std::string(page.etag)},
      // Asked for again each time, so that a new version of the program shows its own page.
      {"Cache-Control", "no-cache"},
      {"Vary", "Accept, Accept-Encoding"},
      {"Content-Security-Policy", std::string(page.content_security_policy)},
      {"X-Content-Type-Options", "nosniff"},
      {"Referrer-Policy", "no-referrer"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
  };
  if (const auto known = request.Header("If-None-Match");
      known && known->find(page.etag) != std::string_view::npos) {
    response.status = 304;
    return response;
  }
  response.content_type = "text/html; charset=utf-8";
  if (AcceptsGzip(request.Header("Accept-Encoding").value_or(""))) {
    response.headers.push_back({"Content-Encoding", "gzip"});
    response.body = page.gzip;
  } else {
    response.body = page.html;
  }
  return response;
}

std::string_view Trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// The part of `text` up to `separator`, which both leave it.
std::string_view TakeUntil(std::string_view& text, char separator) {
  const size_t end = text.find(separator);
  const std::string_view part = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  return Trimmed(part);
}

}  // namespace

bool AcceptsGzip(std::string_view accept_encoding) {
  while (!accept_encoding.empty()) {
    std::string_view item = TakeUntil(accept_encoding, ',');
    if (!EqualsIgnoringCase(TakeUntil(item, ';'), "gzip")) continue;
    // A weight of zero forbids it: "q=0" with any number of noughts.
    const std::string_view weight = TakeUntil(item, ';');
    return !weight.starts_with("q=") ||
           weight.substr(2).find_first_not_of("0.") != std::string_view::npos;
  }
  return false;
}

void AddPageRoute(Router& router) {
  router.Add("GET", "/",
             [](const HttpRequest& request, const std::shared_ptr<ResponseStream>& response) {
               const std::string_view accepted = request.Header("Accept").value_or("");
               if (accepted.find("text/html") != std::string_view::npos) {
                 response->Send(Page(request));
                 return;
               }
               // What Ollama says; clients look for it.
               response->Send({.content_type = "text/plain",
                               .body = "Ollama is running",
                               .headers = {{"Vary", "Accept, Accept-Encoding"}}});
             });
}

}  // namespace slotstream::server
