// Answers in the form of OpenAI's responses.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/collected_reply.h"
#include "server/id_source.h"
#include "server/json_fields.h"
#include "server/reply_writer.h"
#include "server/response_stream.h"
#include "server/responses_request.h"
#include "text/tokenizer.h"

namespace slotstream::server {

struct ResponsesIdentity {
  std::string id;  // "resp_..."
  std::string model;
  int64_t created = 0;         // Unix seconds
  Json echo = Json::object();  // see ResponsesCall
  ResponsesTools tools;
  const text::Tokenizer* tokenizer = nullptr;  // where probabilities were asked for
};

// The response object; `output` and `usage` as far as they are known. `status` is in_progress,
// completed, incomplete or failed.
Json ResponseObject(const ResponsesIdentity& identity, std::string_view status, Json output,
                    Json usage);

// The status of a reply that has ended, with the reason where it is incomplete.
Json EndedResponse(const ResponsesIdentity& identity, Json output,
                   const generate::GenerationResult& result, bool has_calls);

// The answer as events, in the set and the order that Codex and OpenAI's libraries read.
class ResponsesStream : public ReplyWriter {
 public:
  ResponsesStream(std::shared_ptr<ResponseStream> response, ResponsesIdentity identity,
                  IdSource& ids)
      : response_(std::move(response)), identity_(std::move(identity)), ids_(ids) {}

  void Begin(const PromptCount& prompt) override;
  void Event(const generate::ReplyEvent& event) override;
  void Token(const generate::ChosenToken& token) override;
  void KeepAlive() override;
  void End(const generate::GenerationResult& result) override;
  void Fail(const ApiError& error) override;

 private:
  enum class Item { kNone, kReasoning, kMessage, kCall };

  void Send(std::string_view type, Json data);
  void SendResponse(std::string_view type, const Json& object);
  void Open(Item item);
  // Ends the open item as "completed" or "incomplete".
  void Close(std::string_view status);
  void SendPart(std::string_view type);
  void CloseCall(std::string_view status);
  void Text(std::string_view text);
  bool CustomCall() const;
  // Of the tokens since the last call, which become the open item's.
  Json TakeLogProbs();

  std::shared_ptr<ResponseStream> response_;
  ResponsesIdentity identity_;
  IdSource& ids_;
  uint64_t sequence_ = 0;
  Item open_ = Item::kNone;
  std::string item_id_;                        // of the open item
  std::string text_;                           // of the open item
  std::vector<generate::ChosenToken> tokens_;  // whose text has not been sent
  Json log_probs_ = Json::array();             // of the open item's text
  CollectedCall call_;                         // of the open item
  Json output_ = Json::array();                // ended items
  int complete_calls_ = 0;
};

}  // namespace slotstream::server
