#include "server/api_error.h"

#include <fmt/format.h>

#include <utility>

#include "text/json_text.h"

namespace slotstream::server {
namespace {

using Json = text::OrderedJson;
using Kind = ApiError::Kind;

// Seconds until a full queue is worth another try: a short answer takes about that long.
constexpr std::string_view kRetryAfter = "10";

int StatusOf(Kind kind) {
  switch (kind) {
    case Kind::kInvalid:
    case Kind::kContext:
      return 400;
    case Kind::kUnauthorized:
      return 401;
    case Kind::kForbidden:
      return 403;
    case Kind::kNotFound:
      return 404;
    case Kind::kMethod:
      return 405;
    case Kind::kTooLarge:
      return 413;
    case Kind::kHeadTooLarge:
      return 431;
    case Kind::kUnsupported:
      return 501;
    case Kind::kOverloaded:
    case Kind::kUnavailable:
      return 503;
    case Kind::kTimeout:
      return 504;
    case Kind::kInternal:
      break;
  }
  return 500;
}

std::string_view AnthropicType(Kind kind) {
  switch (kind) {
    case Kind::kUnauthorized:
      return "authentication_error";
    case Kind::kForbidden:
      return "permission_error";
    case Kind::kNotFound:
      return "not_found_error";
    case Kind::kTooLarge:
    case Kind::kHeadTooLarge:
      return "request_too_large";
    case Kind::kOverloaded:
    case Kind::kUnavailable:
      return "overloaded_error";
    case Kind::kTimeout:
      return "timeout_error";
    case Kind::kInternal:
      return "api_error";
    default:
      return "invalid_request_error";
  }
}

std::string_view OpenAiType(Kind kind) {
  switch (kind) {
    case Kind::kUnauthorized:
      return "authentication_error";
    case Kind::kForbidden:
      return "permission_error";
    case Kind::kOverloaded:
    case Kind::kUnavailable:
    case Kind::kTimeout:
    case Kind::kInternal:
      return "server_error";
    default:
      return "invalid_request_error";
  }
}

Json OpenAiCode(Kind kind) {
  switch (kind) {
    case Kind::kContext:
      return "context_length_exceeded";
    case Kind::kUnauthorized:
      return "invalid_api_key";
    case Kind::kOverloaded:
    case Kind::kUnavailable:
      return "server_overloaded";
    case Kind::kTimeout:
      return "first_token_deadline_exceeded";
    case Kind::kInternal:
      return "server_error";
    default:
      return nullptr;
  }
}

// The words that clients look for.
std::string MessageOf(ErrorForm form, const ApiError& error) {
  if (error.kind != Kind::kContext) return error.message;
  switch (form) {
    case ErrorForm::kAnthropic:
      return fmt::format("prompt is too long: {} tokens > {} maximum", error.prompt_tokens,
                         error.max_tokens);
    case ErrorForm::kOpenAi:
      return fmt::format(
          "This model's maximum context length is {} tokens. However, your messages resulted in {} "
          "tokens. Please reduce the length of the messages.",
          error.max_tokens, error.prompt_tokens);
    case ErrorForm::kOllama:
      break;
  }
  return fmt::format("the prompt has {} tokens, but the context has room for {}",
                     error.prompt_tokens, error.max_tokens);
}

}  // namespace

ErrorForm ErrorFormOf(std::string_view path) {
  if (path.starts_with("/api/")) return ErrorForm::kOllama;
  if (path.starts_with("/v1/messages")) return ErrorForm::kAnthropic;
  return ErrorForm::kOpenAi;
}

ApiError InvalidRequest(std::string message, std::string param) {
  return {.kind = Kind::kInvalid, .message = std::move(message), .param = std::move(param)};
}

ApiError ContextTooLong(size_t prompt_tokens, size_t max_tokens) {
  return {.kind = Kind::kContext, .prompt_tokens = prompt_tokens, .max_tokens = max_tokens};
}

ApiError ToApiError(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kUnsupported:
      return InvalidRequest(error.message);
    case ErrorCode::kResourceLimit:
      return {.kind = Kind::kUnavailable, .message = error.message};
    default:
      return {.kind = Kind::kInternal, .message = error.message};
  }
}

std::string ErrorBody(ErrorForm form, const ApiError& error) {
  const std::string message = MessageOf(form, error);
  Json body;
  switch (form) {
    case ErrorForm::kOllama:
      body = {{"error", message}};
      break;
    case ErrorForm::kOpenAi:
      body = {{"error",
               {{"message", message},
                {"type", OpenAiType(error.kind)},
                {"param", error.param.empty() ? Json() : Json(error.param)},
                {"code", OpenAiCode(error.kind)}}}};
      break;
    case ErrorForm::kAnthropic:
      body = {{"type", "error"},
              {"error", {{"type", AnthropicType(error.kind)}, {"message", message}}}};
      if (!error.details.empty()) {
        body["error"]["details"] = Json::parse(error.details, nullptr, false);
      }
      break;
  }
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

HttpResponse ErrorResponse(ErrorForm form, const ApiError& error) {
  HttpResponse response;
  response.status = StatusOf(error.kind);
  response.body = ErrorBody(form, error);
  if (error.kind == Kind::kOverloaded) {
    response.headers.push_back({"Retry-After", std::string(kRetryAfter)});
  }
  if (error.kind == Kind::kUnauthorized) response.headers.push_back({"WWW-Authenticate", "Bearer"});
  return response;
}

}  // namespace slotstream::server
