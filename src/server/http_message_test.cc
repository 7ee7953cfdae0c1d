#include "server/http_message.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "server/access_policy.h"
#include "server/api_error.h"
#include "server/router.h"

namespace slotstream::server {
namespace {

TEST(HttpMessage, Targets) {
  const std::pair<const char*, const char*> cases[] = {
      {"/", "/"},
      {"", "/"},
      {"*", "*"},
      {"/api/chat", "/api/chat"},
      {"//api///chat/", "/api/chat"},
      {"/v1/messages?beta=true", "/v1/messages"},
      {"/v1/v1/messages/count_tokens", "/v1/messages/count_tokens"},
      {"/v1/v1/v1/models/v1/v1", "/v1/models/v1/v1"},
      {"/v1/v1", "/v1"},
      {"/messages", "/v1/messages"},
      {"/chat/completions/", "/v1/chat/completions"},
      {"/modelsx", "/modelsx"},
      {"http://host:1/api/tags", "/api/tags"},
      {"http://host", "/"},
      {"/v1/models/a%3ab%2", "/v1/models/a:b%2"},
      {"/?x=http://y/", "/"},
      {"/v1/models/http://x", "/v1/models/http:/x"},
  };
  for (const auto& [target, path] : cases) EXPECT_EQ(ParseTarget(target), path) << target;
}

TEST(HttpMessage, HeadersOfAnyCase) {
  HttpRequest request;
  request.headers = {{"X-Api-Key", "first"}, {"x-api-key", "second"}};
  EXPECT_EQ(request.Header("x-API-key"), "first");
  EXPECT_FALSE(request.Header("x-api-ke"));
}

TEST(AccessPolicy, LocalOrigins) {
  for (const char* origin : {"http://localhost", "https://LOCALHOST:3000", "http://127.0.0.1:1",
                             "http://[::1]:8080", "http://[::1]", "http://0.0.0.0:5"}) {
    EXPECT_TRUE(IsLocalOrigin(origin)) << origin;
  }
  for (const char* origin :
       {"null", "", "http://localhost.evil.example", "http://evil.example", "ftp://localhost",
        "http://127.0.0.1.evil", "localhost", "http://", "http://[::1].evil"}) {
    EXPECT_FALSE(IsLocalOrigin(origin)) << origin;
  }
}

TEST(AccessPolicy, Keys) {
  const AccessPolicy policy({.api_key = "sesame", .allowed_origins = {}});
  const auto accepts = [&policy](const char* name, const char* value) {
    HttpRequest request;
    request.headers = {{name, value}};
    return policy.AcceptsKey(request);
  };
  EXPECT_TRUE(accepts("authorization", "bearer sesame"));
  EXPECT_TRUE(accepts("X-API-Key", "sesame"));
  EXPECT_TRUE(accepts("api-key", "sesame"));
  for (const char* wrong : {"", "Bearer", "Bearer ", "Bearer sesam", "Bearer sesames", "sesame",
                            "Basic sesame", "Bearer  sesame"}) {
    EXPECT_FALSE(accepts("Authorization", wrong)) << wrong;
  }
  EXPECT_FALSE(accepts("x-api-key", "sesam"));
  EXPECT_FALSE(accepts("x-api-key", "sesamesesame"));
  EXPECT_FALSE(accepts("x-api-key", ""));
  EXPECT_TRUE(AccessPolicy({}).AcceptsKey({}));
}

TEST(Router, ExactBeforeBelow) {
  Router router;
  std::string called;
  const auto handler = [&called](const char* name) {
    return [&called, name](const HttpRequest&, const std::shared_ptr<ResponseStream>&) {
      called = name;
    };
  };
  router.Add("GET", "/a", handler("a"));
  router.Add("POST", "/a", handler("post a"));
  router.Add("GET", "/a/*", handler("below"));
  router.Add("GET", "/a/b", handler("b"));
  const auto call = [&](const char* method, const char* path) -> std::string {
    called = "none";
    if (const RouteHandler* found = router.Find(method, path)) (*found)({}, nullptr);
    return called;
  };
  EXPECT_EQ(call("GET", "/a"), "a");
  EXPECT_EQ(call("HEAD", "/a"), "a");
  EXPECT_EQ(call("POST", "/a"), "post a");
  EXPECT_EQ(call("GET", "/a/b"), "b");
  EXPECT_EQ(call("GET", "/a/c"), "below");
  EXPECT_EQ(call("GET", "/a/b/c"), "none");
  EXPECT_EQ(call("DELETE", "/a"), "none");
  EXPECT_EQ(call("GET", "/"), "none");
  EXPECT_EQ(router.Methods("/a"), "GET, POST, HEAD, OPTIONS");
  EXPECT_EQ(router.Methods("/b"), "");
}

TEST(HttpDate, IsThatOfTheStandard) {
  EXPECT_EQ(HttpDate(784111777), "Sun, 06 Nov 1994 08:49:37 GMT");
  EXPECT_EQ(HttpDate(0), "Thu, 01 Jan 1970 00:00:00 GMT");
}

TEST(ErrorResponse, OnlyAFullQueueSaysWhenToComeAgain) {
  using Kind = ApiError::Kind;
  for (Kind kind :
       {Kind::kInvalid, Kind::kContext, Kind::kUnauthorized, Kind::kForbidden, Kind::kNotFound,
        Kind::kMethod, Kind::kTooLarge, Kind::kHeadTooLarge, Kind::kUnsupported, Kind::kOverloaded,
        Kind::kUnavailable, Kind::kTimeout, Kind::kInternal}) {
    for (ErrorForm form : {ErrorForm::kOllama, ErrorForm::kOpenAi, ErrorForm::kAnthropic}) {
      const HttpResponse response = ErrorResponse(form, {.kind = kind, .message = "no"});
      const bool again = std::ranges::any_of(
          response.headers, [](const HttpHeader& h) { return h.name == "Retry-After"; });
      EXPECT_EQ(again, kind == Kind::kOverloaded) << response.status;
      EXPECT_NE(StatusText(response.status), "Unknown");
    }
  }
  EXPECT_EQ(ErrorResponse(ErrorForm::kAnthropic, {.kind = Kind::kTimeout}).status, 504);
}

}  // namespace
}  // namespace slotstream::server
