// The web page at `/`, put together from src/server/page/ when the program is built.
#pragma once

#include <string_view>

namespace slotstream::server {

struct WebPage {
  std::string_view html;
  std::string_view gzip;  // the same, compressed
  std::string_view etag;  // with its quotes
  std::string_view content_security_policy;
};

// In the file that tools/embed_page.py writes.
const WebPage& EmbeddedPage();

// The value of Accept-Encoding lets an answer be compressed with gzip.
bool AcceptsGzip(std::string_view accept_encoding);

}  // namespace slotstream::server
