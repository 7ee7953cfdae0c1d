#include "server/text_prompt.h"

#include <fmt/format.h>

#include <utility>

namespace slotstream::server {

void FillIn(const text::Tokenizer* tokenizer, std::string_view suffix, engine::Request& request) {
  const std::string prefix = std::exchange(request.text, std::nullopt).value_or("");
  // The tokens of Qwen's coders, in their order.
  if (tokenizer != nullptr && tokenizer->FindAddedToken("<|fim_middle|>")) {
    request.text = fmt::format("<|fim_prefix|>{}<|fim_suffix|>{}<|fim_middle|>", prefix, suffix);
    return;
  }
  text::ChatMessage question;
  question.content.push_back(
      {text::ContentItem::Kind::kText,
       fmt::format("Text is missing between BEFORE and AFTER. Write the missing text and nothing "
                   "else.\n\n<before>{}</before>\n\n<after>{}</after>",
                   prefix, suffix)});
  text::ChatRequest chat;
  chat.messages.push_back(std::move(question));
  chat.enable_thinking = false;
  request.chat = std::move(chat);
}

}  // namespace slotstream::server
