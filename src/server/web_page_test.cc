#include "server/web_page.h"

#include <gtest/gtest.h>

#include "server/access_policy.h"

namespace slotstream::server {
namespace {

TEST(WebPage, GzipOnlyWhereItIsAccepted) {
  for (const char* accepts : {"gzip", "deflate, gzip, br", "br;q=1.0, GZIP;q=0.5", "gzip ; q=1"}) {
    EXPECT_TRUE(AcceptsGzip(accepts)) << accepts;
  }
  for (const char* refuses : {"", "br", "identity", "gzip;q=0", "gzip; q=0.000", "x-gzip2"}) {
    EXPECT_FALSE(AcceptsGzip(refuses)) << refuses;
  }
}

TEST(WebPage, IsWholeAndNamesItsHashes) {
  const WebPage& page = EmbeddedPage();
  EXPECT_TRUE(page.html.starts_with("<!doctype html>"));
  EXPECT_TRUE(page.html.ends_with("</html>\n"));
  EXPECT_LT(page.html.size(), 120u * 1024);
  EXPECT_LT(page.gzip.size(), page.html.size() / 2);
  const std::string_view policy = page.content_security_policy;
  EXPECT_NE(policy.find("default-src 'none'"), std::string_view::npos);
  EXPECT_NE(policy.find("script-src 'sha256-"), std::string_view::npos);
  EXPECT_EQ(policy.find("unsafe"), std::string_view::npos);
}

HttpRequest From(const std::string& origin, const std::string& host) {
  HttpRequest request;
  request.headers = {{"Origin", origin}, {"Host", host}};
  return request;
}

TEST(WebPage, TheServersOwnPageMayAsk) {
  const AccessPolicy open({});
  EXPECT_TRUE(open.AllowsOrigin(From("http://192.168.1.5:11434", "192.168.1.5:11434")));
  EXPECT_TRUE(open.AllowsOrigin(From("http://[fe80::1]:11434", "[fe80::1]:11434")));
  EXPECT_FALSE(open.AllowsOrigin(From("http://192.168.1.5:8080", "192.168.1.5:11434")));
  EXPECT_FALSE(open.AllowsOrigin(From("https://site.example", "127.0.0.1:11434")));
  // A site may let its name point to this machine.
  EXPECT_FALSE(open.AllowsOrigin(From("http://site.example:11434", "site.example:11434")));
  const AccessPolicy locked({.api_key = "secret", .allowed_origins = {}});
  EXPECT_TRUE(locked.AllowsOrigin(From("http://box.lan:11434", "box.lan:11434")));
  EXPECT_TRUE(locked.AllowsOrigin(From("https://box.lan", "box.lan")));
  EXPECT_FALSE(locked.AllowsOrigin(From("ftp://box.lan", "box.lan")));
  EXPECT_FALSE(locked.AllowsOrigin(From("http://site.example", "box.lan:11434")));
}

}  // namespace
}  // namespace slotstream::server
