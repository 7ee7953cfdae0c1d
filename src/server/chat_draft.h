// A conversation of any dialect on its way to text::ChatRequest.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "server/json_fields.h"
#include "text/chat_request.h"

namespace slotstream::server {

// What a request asks for beside its messages.
enum class ToolChoice { kAuto, kNone, kRequired, kNamed };

// A message with the ids that join calls and answers, which the template does not show.
struct DraftMessage {
  text::ChatMessage message;
  std::vector<std::string> call_ids;  // of message.tool_calls
  std::string answers;                // of a tool's answer: the call's id, where it is known
};

struct ChatDraft {
  std::vector<DraftMessage> messages;
  Json tools = Json::array();  // OpenAI function objects
  ToolChoice tool_choice = ToolChoice::kAuto;
  std::string tool_name;  // of kNamed
  bool thinking = false;
  std::string effort = "xhigh";  // as text::ChatRequest::reasoning_effort
  JsonBudget arguments;          // for the calls of all messages

  // Adds a function; an empty description is left out, and so are absent parameters.
  void AddTool(std::string_view name, std::string_view description, const Json* parameters);
  // The last message if it is an assistant's, else a new one: dialects that send reasoning, text
  // and calls as items of their own make one turn of them.
  DraftMessage& AssistantTurn();
};

// Content in any dialect's form: null, text, or a list of parts. Pictures become items of their
// own; parts that hold text in some other way become text, and what can't is named in brackets.
// Errors: kInvalidArgument with `where`.
Result<std::vector<text::ContentItem>> ReadContent(const Json* content, std::string_view where);

// The same as one text; pictures are named.
Result<std::string> ReadText(const Json* content, std::string_view where);

// A call's arguments, an object or JSON text. Text that is no object, or costs more than `budget`,
// is kept as the only argument "arguments", so that the model sees what it wrote.
Json ReadArguments(const Json* arguments, JsonBudget& budget);

// Sets thinking and effort from a level's name: none, minimal and off are off; low; medium; high,
// xhigh and max. False for another.
bool ApplyEffort(std::string_view level, ChatDraft& draft);

// What the chat template gets, and how the reply must begin: a forced call begins the reply with
// its head, without reasoning.
struct FinishedChat {
  text::ChatRequest chat;
  std::string reply_start;
};
FinishedChat FinishChat(ChatDraft draft);

// Makes the finished chat the request's, with the sampling that suits it.
void SetChat(ChatDraft draft, engine::Request& request);

}  // namespace slotstream::server
