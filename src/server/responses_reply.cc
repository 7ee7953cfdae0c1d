#include "server/responses_reply.h"

#include <utility>

#include "server/log_probs.h"
#include "server/responses_items.h"
#include "server/sse.h"

namespace slotstream::server {
namespace {

using Kind = generate::ReplyEvent::Kind;

}  // namespace

Json ResponseObject(const ResponsesIdentity& identity, std::string_view status, Json output,
                    Json usage) {
  Json object = {{"id", identity.id},
                 {"object", "response"},
                 {"created_at", identity.created},
                 {"status", status},
                 {"background", false},
                 {"error", nullptr},
                 {"incomplete_details", nullptr},
                 {"model", identity.model},
                 {"output", std::move(output)},
                 {"previous_response_id", nullptr},
                 {"store", false},
                 {"truncation", "disabled"},
                 {"usage", std::move(usage)},
                 {"user", nullptr}};
  object.update(identity.echo);
  return object;
}

Json EndedResponse(const ResponsesIdentity& identity, Json output,
                   const generate::GenerationResult& result, bool has_calls) {
  // What a client can act on is complete, though the model would have said more.
  const bool incomplete = RanOut(result) && !has_calls;
  Json object = ResponseObject(identity, incomplete ? "incomplete" : "completed", std::move(output),
                               ResponsesUsage(result));
  if (incomplete) object["incomplete_details"] = {{"reason", "max_output_tokens"}};
  return object;
}

void ResponsesStream::Send(std::string_view type, Json data) {
  Json event = {{"type", type}, {"sequence_number", sequence_++}};
  event.update(data);
  response_->Write(SseEvent(type, event));
}

void ResponsesStream::SendResponse(std::string_view type, const Json& object) {
  Send(type, {{"response", object}});
}

void ResponsesStream::Begin(const PromptCount&) {
  response_->Begin(kEventStream);
  const Json object = ResponseObject(identity_, "in_progress", Json::array(), nullptr);
  SendResponse("response.created", object);
  SendResponse("response.in_progress", object);
}

void ResponsesStream::KeepAlive() {
  SendResponse("response.in_progress",
               ResponseObject(identity_, "in_progress", Json::array(), nullptr));
}

bool ResponsesStream::CustomCall() const {
  const ResponsesTool* tool = FindTool(identity_.tools, call_.name);
  return tool != nullptr && tool->custom;
}

void ResponsesStream::Open(Item item) {
  if (open_ == item && item != Item::kCall) return;
  Close("completed");
  open_ = item;
  text_.clear();
  log_probs_ = Json::array();
  Json opened;
  switch (item) {
    case Item::kNone:
      return;
    case Item::kReasoning:
      item_id_ = ids_.Next("rs_");
      opened = ReasoningItem(item_id_, "", "in_progress");
      break;
    case Item::kMessage:
      item_id_ = ids_.Next("msg_");
      opened = MessageItem(item_id_, "", "in_progress");
      break;
    case Item::kCall:
      item_id_ = ids_.Next("fc_");
      opened = CallItem(item_id_, call_, identity_.tools, "in_progress");
      break;
  }
  Send("response.output_item.added",
       {{"output_index", output_.size()}, {"item", std::move(opened)}});
  if (item != Item::kCall) SendPart("response.content_part.added");
}

// The text so far as the only part of the open item.
void ResponsesStream::SendPart(std::string_view type) {
  Json part = {{"type", open_ == Item::kReasoning ? "reasoning_text" : "output_text"},
               {"text", text_}};
  if (open_ == Item::kMessage) {
    part["annotations"] = Json::array();
    part["logprobs"] = log_probs_;
  }
  Send(type, {{"item_id", item_id_},
              {"output_index", output_.size()},
              {"content_index", 0},
              {"part", std::move(part)}});
}

void ResponsesStream::Close(std::string_view status) {
  switch (open_) {
    case Item::kNone:
      return;
    case Item::kReasoning:
      Send("response.reasoning_text.done", {{"item_id", item_id_},
                                            {"output_index", output_.size()},
                                            {"content_index", 0},
                                            {"text", text_}});
      SendPart("response.content_part.done");
      break;
    case Item::kMessage:
      Send("response.output_text.done", {{"item_id", item_id_},
                                         {"output_index", output_.size()},
                                         {"content_index", 0},
                                         {"text", text_},
                                         {"logprobs", log_probs_}});
      SendPart("response.content_part.done");
      break;
    case Item::kCall:
      CloseCall(status);
      break;
  }
  Json item = open_ == Item::kReasoning ? ReasoningItem(item_id_, text_, status)
              : open_ == Item::kMessage ? MessageItem(item_id_, text_, status, log_probs_)
                                        : CallItem(item_id_, call_, identity_.tools, status);
  Send("response.output_item.done", {{"output_index", output_.size()}, {"item", item}});
  output_.push_back(std::move(item));
  open_ = Item::kNone;
}

void ResponsesStream::CloseCall(std::string_view) {
  Json event = {{"item_id", item_id_}, {"output_index", output_.size()}};
  if (!CustomCall()) {
    event["name"] = call_.name;
    event["arguments"] = call_.arguments;
    Send("response.function_call_arguments.done", std::move(event));
    return;
  }
  // Its text is known only when the JSON around it is complete.
  event["delta"] = CustomInput(call_);
  Send("response.custom_tool_call_input.delta", event);
  event.erase("delta");
  event["input"] = CustomInput(call_);
  Send("response.custom_tool_call_input.done", std::move(event));
}

void ResponsesStream::Text(std::string_view text) {
  Open(Item::kMessage);
  text_ += text;
  Send("response.output_text.delta", {{"item_id", item_id_},
                                      {"output_index", output_.size()},
                                      {"content_index", 0},
                                      {"delta", text},
                                      {"logprobs", TakeLogProbs()}});
}

void ResponsesStream::Token(const generate::ChosenToken& token) {
  if (token.in_answer) tokens_.push_back(token);
}

Json ResponsesStream::TakeLogProbs() {
  if (identity_.tokenizer == nullptr) return Json::array();
  Json taken = LogProbsJson(*identity_.tokenizer, std::exchange(tokens_, {}));
  for (const Json& entry : taken) log_probs_.push_back(entry);
  return taken;
}

void ResponsesStream::Event(const generate::ReplyEvent& event) {
  switch (event.kind) {
    case Kind::kReasoning:
      Open(Item::kReasoning);
      text_ += event.text;
      Send("response.reasoning_text.delta", {{"item_id", item_id_},
                                             {"output_index", output_.size()},
                                             {"content_index", 0},
                                             {"delta", event.text}});
      break;
    case Kind::kText:
      Text(event.text);
      break;
    case Kind::kCallBegin:
      Close("completed");
      call_ = {event.id, event.name, ""};
      Open(Item::kCall);
      break;
    case Kind::kCallArguments:
      call_.arguments += event.text;
      if (CustomCall()) break;
      Send("response.function_call_arguments.delta",
           {{"item_id", item_id_}, {"output_index", output_.size()}, {"delta", event.text}});
      break;
    case Kind::kCallEnd:
      Close("completed");
      tokens_.clear();  // those of the call
      ++complete_calls_;
      break;
    case Kind::kCallMalformed:
      // A call that was begun stays open, to end as what it is.
      if (open_ != Item::kCall) Text(event.text);
      break;
  }
}

void ResponsesStream::End(const generate::GenerationResult& result) {
  const bool cut = RanOut(result);
  if (open_ == Item::kCall && cut) {
    open_ = Item::kNone;  // half a call must not be run
  } else {
    Close(cut ? "incomplete" : "completed");
  }
  const Json object = EndedResponse(identity_, output_, result, complete_calls_ > 0);
  SendResponse(object["status"] == "incomplete" ? "response.incomplete" : "response.completed",
               object);
  response_->End();
}

void ResponsesStream::Fail(const ApiError& error) {
  if (!response_->begun()) {
    response_->Send(ErrorResponse(ErrorForm::kOpenAi, error));
    return;
  }
  Json object = ResponseObject(identity_, "failed", output_, nullptr);
  object["error"] = {{"code", "server_error"}, {"message", error.message}};
  SendResponse("response.failed", object);
  response_->End();
}

}  // namespace slotstream::server
