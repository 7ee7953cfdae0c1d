// Answers in the form of Anthropic's messages.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "server/collected_reply.h"
#include "server/json_fields.h"
#include "server/reply_writer.h"
#include "server/response_stream.h"

namespace slotstream::server {

struct AnthropicIdentity {
  std::string id;  // "msg_..."
  std::string model;
  bool thinking = false;  // the reply begins with reasoning
};

// The whole answer.
Json AnthropicAnswer(const AnthropicIdentity& identity, const CollectedReply& reply,
                     const generate::GenerationResult& result);

// The answer as events: one block after another, of thinking, text or a tool's use. Clients leave
// after minutes of anything but a block's own deltas, so keep-alives are empty ones, in the block
// that is open or that the reply would open anyway.
class AnthropicStream : public ReplyWriter {
 public:
  AnthropicStream(std::shared_ptr<ResponseStream> response, AnthropicIdentity identity)
      : response_(std::move(response)), identity_(std::move(identity)) {}

  void Begin(const PromptCount& prompt) override;
  void Event(const generate::ReplyEvent& event) override;
  void KeepAlive() override;
  void End(const generate::GenerationResult& result) override;
  void Fail(const ApiError& error) override;

 private:
  enum class Block { kNone, kThinking, kText, kToolUse };

  void Send(std::string_view name, Json data);
  void Open(Block block, Json content);
  void OpenIfNeeded(Block block);
  void Close();
  void Delta(std::string_view text);

  std::shared_ptr<ResponseStream> response_;
  AnthropicIdentity identity_;
  Block open_ = Block::kNone;
  int index_ = -1;         // of the open block, or of the last
  std::string reasoning_;  // of the open block
  int calls_ = 0;
  bool call_open_ = false;
};

}  // namespace slotstream::server
