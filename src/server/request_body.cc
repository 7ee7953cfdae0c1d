#include "server/request_body.h"

namespace slotstream::server {

void Refuse(const HttpRequest& request, ResponseStream& response, const ApiError& error) {
  response.Send(ErrorResponse(ErrorFormOf(request.path), error));
}

bool ReadBody(const HttpRequest& request, ResponseStream& response,
              const std::function<std::optional<ApiError>(const Json& body)>& read) {
  const auto body = ParseBody(request.body);
  const std::optional<ApiError> error = body ? read(*body) : ToApiError(body.error());
  if (error) Refuse(request, response, *error);
  return !error;
}

}  // namespace slotstream::server
