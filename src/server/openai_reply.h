// Answers in the form of OpenAI's chat completions.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/collected_reply.h"
#include "server/json_fields.h"
#include "server/reply_writer.h"
#include "server/response_stream.h"
#include "text/tokenizer.h"

namespace slotstream::server {

// What every piece of one answer repeats.
struct OpenAiIdentity {
  std::string id;  // "chatcmpl-..."
  std::string model;
  int64_t created = 0;  // Unix seconds
};

struct OpenAiReplyOptions {
  OpenAiIdentity identity;
  bool include_usage = false;                  // a stream ends with the counts
  const text::Tokenizer* tokenizer = nullptr;  // where probabilities were asked for
};

// {"prompt_tokens", "completion_tokens", "total_tokens", ...}
Json OpenAiUsage(const generate::GenerationResult& result);

// "stop", "length" or "tool_calls".
std::string_view OpenAiFinishReason(const generate::GenerationResult& result, bool has_calls);

// The whole answer.
Json OpenAiChatAnswer(const OpenAiReplyOptions& options, const CollectedReply& reply,
                      const generate::GenerationResult& result);

// The answer in chunks. Arguments of calls stream as fragments of JSON text. A call that breaks off
// stays incomplete: its client sees arguments that don't parse.
class OpenAiChatStream : public ReplyWriter {
 public:
  OpenAiChatStream(std::shared_ptr<ResponseStream> response, OpenAiReplyOptions options)
      : response_(std::move(response)), options_(std::move(options)) {}

  void Begin(const PromptCount& prompt) override;
  void Event(const generate::ReplyEvent& event) override;
  void Token(const generate::ChosenToken& token) override;
  void KeepAlive() override;
  void End(const generate::GenerationResult& result) override;
  void Fail(const ApiError& error) override;

 private:
  Json Chunk() const;
  void Delta(Json delta);
  Json TakeLogProbs();

  std::shared_ptr<ResponseStream> response_;
  OpenAiReplyOptions options_;
  std::vector<generate::ChosenToken> tokens_;  // not yet sent with a delta
  int calls_ = 0;                              // begun
  bool call_open_ = false;
};

}  // namespace slotstream::server
