#include "server/plain_reply.h"

namespace slotstream::server {

void PlainReply::Token(const generate::ChosenToken& token) {
  if (token.in_answer) reply_.tokens.push_back(token);
}

void PlainReply::KeepAlive() {
  response_->Begin("application/json");
  response_->Write(" ");
}

void PlainReply::End(const generate::GenerationResult& result) {
  Finish({.body = format_(reply_, result), .headers = {}});
}

void PlainReply::Fail(const ApiError& error) { Finish(ErrorResponse(errors_, error)); }

void PlainReply::Finish(const HttpResponse& whole) {
  if (!response_->begun()) {
    response_->Send(whole);
    return;
  }
  response_->Write(whole.body);
  response_->End();
}

}  // namespace slotstream::server
