// What requests of OpenAI's chat completions and completions have in common, and how both are
// answered.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "engine/engine.h"
#include "server/collected_reply.h"
#include "server/json_fields.h"
#include "server/openai_reply.h"
#include "server/reply_writer.h"
#include "server/service.h"

namespace slotstream::server {

struct OpenAiCall {
  engine::Request request;
  std::string model;
  bool stream = false;
  bool include_usage = false;
};

// Reads `model`, `stream` and `stream_options`.
void ReadDelivery(Fields& fields, OpenAiCall& call);

// The forms of one route's answers.
struct OpenAiForms {
  std::string_view id_prefix;
  std::unique_ptr<ReplyWriter> (*stream)(std::shared_ptr<ResponseStream> response,
                                         OpenAiReplyOptions options);
  std::string (*whole)(const OpenAiReplyOptions& options, const CollectedReply& reply,
                       const generate::GenerationResult& result);
};

// Generates what `call` asks for.
void AnswerOpenAiCall(Service& service, const HttpRequest& request,
                      const std::shared_ptr<ResponseStream>& response, OpenAiCall call,
                      const OpenAiForms& forms);

}  // namespace slotstream::server
