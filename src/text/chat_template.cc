#include "text/chat_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "text/utf8.h"

namespace slotstream::text {
namespace {

constexpr std::string_view kEffortXhigh =
    "Reasoning effort is set to xhigh. Please think carefully through the task, validate key "
    "assumptions, consider plausible alternatives, and prioritize correctness, consistency, and "
    "clarity in the final answer.";
constexpr std::string_view kEffortLow =
    "Reasoning effort is set to low. Keep your thinking brief and focused, moving directly to the "
    "conclusion without unnecessary elaboration.";

constexpr std::string_view kToolsHead =
    "# Tools\n\nYou have access to the following functions:\n\n<tools>";
constexpr std::string_view kToolsTail = R"(
</tools>

If you choose to call a function ONLY reply in the following format with NO suffix:

<tool_call>
<function=example_function_name>
<parameter=example_parameter_1>
value_1
</parameter>
<parameter=example_parameter_2>
This is the value for the second parameter
that can span
multiple lines
</parameter>
</function>
</tool_call>

<IMPORTANT>
Reminder:
- Function calls MUST follow the specified format: an inner <function=...></function> block must be nested within <tool_call></tool_call> XML tags
- Required parameters MUST be specified
- You may provide optional reasoning for your function call in natural language BEFORE the function call, but NOT after
- If there is no function call available, answer the question like normal with your current knowledge and do not tell the user about function calls
</IMPORTANT>)";

constexpr std::string_view kTurnEnd = "<|im_end|>\n";

std::unexpected<Error> Refuse(std::string message) {
  return Fail(ErrorCode::kInvalidArgument, std::move(message));
}

// Python's str.isspace, which is what the template's trim strips.
bool IsPythonSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

}  // namespace

TextRange Trimmed(std::string_view text) {
  TextRange kept{text.size(), text.size()};
  for (size_t i = 0; i < text.size();) {
    const Scalar scalar = NextScalar(text.substr(i));
    if (scalar.kind != Scalar::Kind::kValid || !IsPythonSpace(scalar.code_point)) {
      if (kept.begin == text.size()) kept.begin = i;
      kept.end = i + scalar.length;
    }
    i += scalar.length;
  }
  if (kept.begin == text.size()) kept.end = kept.begin;
  return kept;
}

namespace {

// Text with the knowledge which bytes are the request's own.
class Prompt {
 public:
  void Own(std::string_view text) { prompt_.text.append(text); }

  void Content(std::string_view text) {
    if (text.empty()) return;
    const size_t begin = prompt_.text.size(), end = begin + text.size();
    prompt_.text.append(text);
    if (!prompt_.content.empty() && prompt_.content.back().end == begin) {
      prompt_.content.back().end = end;
    } else {
      prompt_.content.push_back({begin, end});
    }
  }

  void Append(const Prompt& other) {
    const std::string_view text = other.text();
    size_t at = 0;
    for (const TextRange& range : other.prompt_.content) {
      Own(text.substr(at, range.begin - at));
      Content(text.substr(range.begin, range.end - range.begin));
      at = range.end;
    }
    Own(text.substr(at));
  }

  // The same without white space at both ends.
  Prompt Trim() const {
    const TextRange kept = Trimmed(prompt_.text);
    Prompt result;
    result.prompt_.text = prompt_.text.substr(kept.begin, kept.end - kept.begin);
    for (TextRange range : prompt_.content) {
      range = {std::max(range.begin, kept.begin), std::min(range.end, kept.end)};
      if (range.begin >= range.end) continue;
      result.prompt_.content.push_back({range.begin - kept.begin, range.end - kept.begin});
    }
    return result;
  }

  // A reply that began at byte `begin` ends here.
  void EndReply(size_t message, size_t begin) {
    prompt_.replies.push_back({message, {begin, prompt_.text.size()}});
  }
  // A part that other conversations may share ends here.
  void EndShared() { prompt_.shared_ends.push_back(prompt_.text.size()); }

  std::string_view text() const { return prompt_.text; }
  bool empty() const { return prompt_.text.empty(); }
  RenderedPrompt Take() { return std::move(prompt_); }

 private:
  RenderedPrompt prompt_;
};

class Renderer {
 public:
  explicit Renderer(const ChatRequest& request) : request_(request) {}

  Result<RenderedPrompt> Run() {
    const auto& messages = request_.messages;
    if (messages.empty()) return Refuse("there are no messages");
    if (messages[0].role == Role::kTool && !request_.any_order) {
      return Refuse("messages[0] is a tool's answer");
    }
    SS_RETURN_IF_ERROR(SystemTurn());
    const std::optional<size_t> last_query = LastQuery();
    if (!last_query && !request_.any_order) return Refuse("no user message asks anything");
    for (size_t i = 0; i < messages.size(); ++i) {
      switch (messages[i].role) {
        case Role::kSystem:
          if (i == 0) break;
          if (!request_.any_order) {
            return Refuse(fmt::format("messages[{}]: a system message, not first", i));
          }
          out_.Own("<|im_start|>system\n");
          out_.Append(SystemContent(messages[i]));
          out_.Own(kTurnEnd);
          break;
        case Role::kUser:
          out_.Own("<|im_start|>user\n");
          out_.Append(Content(messages[i]));
          out_.Own(kTurnEnd);
          break;
        case Role::kAssistant:
          SS_RETURN_IF_ERROR(AssistantTurn(i, i > last_query.value_or(0)));
          break;
        case Role::kTool:
          ToolAnswer(i);
          break;
      }
    }
    if (request_.add_generation_prompt) {
      out_.Own("<|im_start|>assistant\n<think>\n");
      if (request_.enable_thinking == false) out_.Own("\n</think>\n\n");
    }
    return out_.Take();
  }

 private:
  // Trimmed content; counts pictures and videos over the whole conversation.
  Prompt Content(const ChatMessage& message) {
    Prompt content;
    for (const ContentItem& item : message.content) {
      switch (item.kind) {
        case ContentItem::Kind::kText:
          content.Content(item.text);
          break;
        case ContentItem::Kind::kImage:
          ++images_;
          if (request_.add_vision_id) content.Own(fmt::format("Picture {}: ", images_));
          content.Own("<|vision_start|><|image_pad|><|vision_end|>");
          break;
        case ContentItem::Kind::kVideo:
          ++videos_;
          if (request_.add_vision_id) content.Own(fmt::format("Video {}: ", videos_));
          content.Own("<|vision_start|><|video_pad|><|vision_end|>");
          break;
      }
    }
    return content.Trim();
  }

  Prompt SystemContent(const ChatMessage& message) {
    Prompt content;
    for (const ContentItem& item : message.content) {
      if (item.kind == ContentItem::Kind::kText) content.Content(item.text);
    }
    return content.Trim();
  }

  Result<std::string_view> EffortSentence() const {
    if (request_.enable_thinking == false) return std::string_view();
    if (request_.reasoning_effort == "xhigh") return kEffortXhigh;
    if (request_.reasoning_effort == "low") return kEffortLow;
    if (request_.reasoning_effort == "medium") return std::string_view();
    return Refuse(fmt::format("reasoning_effort {:?} is none of xhigh, medium, low",
                              request_.reasoning_effort));
  }

  Status SystemTurn() {
    SS_ASSIGN_OR_RETURN(const std::string_view effort, EffortSentence());
    Prompt system;
    if (const ChatMessage& first = request_.messages[0]; first.role == Role::kSystem) {
      for (const ContentItem& item : first.content) {
        if (item.kind != ContentItem::Kind::kText && !request_.any_order) {
          return Refuse("messages[0]: a system message can't have pictures or videos");
        }
      }
      system = SystemContent(first);
    }
    const OrderedJson& tools = request_.tools;
    if (!tools.is_null() && !tools.is_array()) return Refuse("tools is not a list");
    const bool has_tools = !tools.empty();
    if (!has_tools && effort.empty() && system.empty()) return {};

    out_.Own("<|im_start|>system\n");
    out_.Own(effort);
    if (has_tools) {
      if (!effort.empty()) out_.Own("\n\n");
      out_.Own(kToolsHead);
      for (const OrderedJson& tool : tools) {
        SS_ASSIGN_OR_RETURN(const std::string json, WriteJson(tool, JsonStyle::kPython));
        out_.Own("\n");
        out_.Content(json);
      }
      out_.Own(kToolsTail);
      out_.EndShared();
    }
    if (!system.empty()) {
      if (has_tools || !effort.empty()) out_.Own("\n\n");
      out_.Append(system);
    }
    out_.Own(kTurnEnd);
    out_.EndShared();
    return {};
  }

  // The last user message that isn't just a tool's answer in disguise.
  std::optional<size_t> LastQuery() {
    std::optional<size_t> last;
    const auto counters = std::pair(images_, videos_);
    for (size_t i = 0; i < request_.messages.size(); ++i) {
      if (request_.messages[i].role != Role::kUser) continue;
      const Prompt content = Content(request_.messages[i]);
      if (!content.text().starts_with("<tool_response>") ||
          !content.text().ends_with("</tool_response>")) {
        last = i;
      }
    }
    std::tie(images_, videos_) = counters;
    return last;
  }

  Status AssistantTurn(size_t index, bool after_last_query) {
    const ChatMessage& message = request_.messages[index];
    out_.Own("<|im_start|>assistant\n");
    const Prompt content = Content(message);
    const bool reasoning = request_.preserve_thinking.value_or(true) || after_last_query;
    const size_t begin = out_.text().size();
    if (reasoning) {
      const TextRange kept = Trimmed(message.reasoning);
      out_.Own(kReasoningOpen);
      out_.Content(std::string_view(message.reasoning).substr(kept.begin, kept.end - kept.begin));
      out_.Own("\n</think>\n\n");
    }
    out_.Append(content);
    for (size_t i = 0; i < message.tool_calls.size(); ++i) {
      if (i > 0) out_.Own("\n");
      if (i == 0 && !content.empty()) out_.Own("\n\n");
      SS_RETURN_IF_ERROR(Call(message.tool_calls[i]));
    }
    if (reasoning) out_.EndReply(index, begin);
    out_.Own(kTurnEnd);
    return {};
  }

  Status Call(const ToolCall& call) {
    out_.Own("<tool_call>\n<function=");
    out_.Content(call.name);
    out_.Own(">\n");
    if (!call.arguments.is_object()) {
      return Refuse(fmt::format("arguments of the call of {:?} are no object", call.name));
    }
    for (const auto& [key, value] : call.arguments.items()) {
      out_.Own("<parameter=");
      out_.Content(key);
      out_.Own(">\n");
      if (value.is_string()) {
        out_.Content(value.get_ref<const std::string&>());
      } else {
        SS_ASSIGN_OR_RETURN(const std::string json, WriteJson(value, JsonStyle::kPython));
        out_.Content(json);
      }
      out_.Own("\n</parameter>\n");
    }
    out_.Own("</function>\n</tool_call>");
    return {};
  }

  // A run of tool answers is one user turn.
  void ToolAnswer(size_t index) {
    const auto& messages = request_.messages;
    if (index == 0 || messages[index - 1].role != Role::kTool) out_.Own("<|im_start|>user");
    out_.Own("\n<tool_response>\n");
    out_.Append(Content(messages[index]));
    out_.Own("\n</tool_response>");
    const bool last = index + 1 == messages.size() || messages[index + 1].role != Role::kTool;
    if (last) out_.Own(kTurnEnd);
  }

  const ChatRequest& request_;
  Prompt out_;
  int images_ = 0, videos_ = 0;
};

}  // namespace

Result<RenderedPrompt> RenderChat(const ChatRequest& request) { return Renderer(request).Run(); }

}  // namespace slotstream::text
