// Answers in Ollama's form: one object, or a line of JSON for each piece.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "server/collected_reply.h"
#include "server/json_fields.h"
#include "server/reply_writer.h"
#include "server/response_stream.h"
#include "text/tokenizer.h"

namespace slotstream::server {

struct OllamaReplyOptions {
  std::string model;
  bool chat = true;                            // else /api/generate
  const text::Tokenizer* tokenizer = nullptr;  // where probabilities were asked for
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
};

// "2026-11-29T19:26:58.123456Z", now.
std::string OllamaTime();

// One piece; what is empty is left out where Ollama leaves it out.
Json OllamaPiece(const OllamaReplyOptions& options, std::string_view text,
                 std::string_view thinking = {});

// The answer to a request that asks for nothing but the model's loading, or its unloading.
Json OllamaLoadAnswer(const OllamaReplyOptions& options, bool unload);

// The whole answer.
Json OllamaAnswer(const OllamaReplyOptions& options, const CollectedReply& reply,
                  const generate::GenerationResult& result);

// Calls of tools come whole, each in a line of its own.
class OllamaStream : public ReplyWriter {
 public:
  OllamaStream(std::shared_ptr<ResponseStream> response, OllamaReplyOptions options)
      : response_(std::move(response)), options_(std::move(options)) {}

  void Begin(const PromptCount& prompt) override;
  void Event(const generate::ReplyEvent& event) override;
  void Token(const generate::ChosenToken& token) override;
  void KeepAlive() override;
  void End(const generate::GenerationResult& result) override;
  void Fail(const ApiError& error) override;

 private:
  void Line(Json line);

  std::shared_ptr<ResponseStream> response_;
  OllamaReplyOptions options_;
  std::vector<generate::ChosenToken> tokens_;  // not yet sent
  CollectedCall call_;
  int calls_ = 0;
};

}  // namespace slotstream::server
