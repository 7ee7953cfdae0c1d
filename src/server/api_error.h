// Refusals and failures, in the form that each dialect's clients understand.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "server/http_message.h"

namespace slotstream::server {

enum class ErrorForm { kOllama, kOpenAi, kAnthropic };

// By route, for errors that come before any dialect has read the request.
ErrorForm ErrorFormOf(std::string_view path);

// Clients decide by status, type and even by words whether they ask again: messages of lasting
// errors must not sound as if waiting would help.
struct ApiError {
  enum class Kind {
    kInvalid,       // 400
    kContext,       // 400: the prompt is longer than the context
    kUnauthorized,  // 401
    kForbidden,     // 403
    kNotFound,      // 404
    kMethod,        // 405
    kTooLarge,      // 413
    kHeadTooLarge,  // 431
    kUnsupported,   // 501: what this server will never do
    kOverloaded,    // 503, with Retry-After: another try will find room
    kUnavailable,   // 503: stopping, or no memory for this request
    kTimeout,       // 504: the first token did not come in time
    kInternal,      // 500
  };
  Kind kind = Kind::kInternal;
  std::string message = {};
  std::string param = {};    // the field at fault
  std::string details = {};  // JSON for Anthropic's `details`
  size_t prompt_tokens = 0;  // of kContext
  size_t max_tokens = 0;     // of kContext
};

ApiError InvalidRequest(std::string message, std::string param = {});
ApiError ContextTooLong(size_t prompt_tokens, size_t max_tokens);
// A failure of the layers below.
ApiError ToApiError(const Error& error);

// The JSON that says it.
std::string ErrorBody(ErrorForm form, const ApiError& error);
HttpResponse ErrorResponse(ErrorForm form, const ApiError& error);

}  // namespace slotstream::server
