#include "engine/prompt_encoder.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "text/chat_template.h"

namespace slotstream::engine {
namespace {

// Encodes a rendered prompt from front to back, in pieces.
class Encoder {
 public:
  Encoder(const text::Tokenizer& tokenizer, const text::RenderedPrompt& prompt)
      : tokenizer_(tokenizer), prompt_(prompt) {}

  // The text up to byte `end`, which must be the end or the beginning of a control token: only
  // there a cut changes no id.
  Status EncodeTo(size_t end) {
    std::vector<text::TextRange> literal;
    // What a user wrote must not act as control tokens.
    for (const text::TextRange& range : prompt_.content) {
      if (range.end > at_ && range.begin < end) {
        literal.push_back({std::max(range.begin, at_) - at_, std::min(range.end, end) - at_});
      }
    }
    const std::string_view text = std::string_view(prompt_.text).substr(at_, end - at_);
    SS_ASSIGN_OR_RETURN(std::vector<uint32_t> ids, tokenizer_.Encode(text, literal));
    hash_.Add(ids);
    if (result.ids.empty()) {
      result.ids = std::move(ids);  // the usual case, and a long prompt is kept only once
    } else {
      result.ids.insert(result.ids.end(), ids.begin(), ids.end());
    }
    at_ = end;
    return {};
  }

  void Append(std::span<const uint32_t> ids) {
    result.ids.insert(result.ids.end(), ids.begin(), ids.end());
    hash_.Add(ids);
  }
  // Goes on behind byte `end`, whose ids were appended.
  void SkipTo(size_t end) { at_ = end; }

  const PromptHash& hash() const { return hash_; }

  EncodedPrompt result;

 private:
  const text::Tokenizer& tokenizer_;
  const text::RenderedPrompt& prompt_;
  size_t at_ = 0;
  PromptHash hash_;
};

// Puts the ids of remembered replies in the place of their texts.
Status Splice(const text::Tokenizer& tokenizer, const text::ChatRequest& chat,
              const text::RenderedPrompt& prompt, ReplyMemory& memory, Encoder& encoder) {
  SS_ASSIGN_OR_RETURN(const std::vector<uint32_t> open, tokenizer.Encode(text::kReasoningOpen));
  SS_ASSIGN_OR_RETURN(const std::vector<uint32_t> none, tokenizer.Encode(text::kReasoningNone));
  for (const text::RenderedReply& reply : prompt.replies) {
    SS_RETURN_IF_ERROR(encoder.EncodeTo(reply.range.begin));
    const state::ReplyDigest digest = DigestOf(chat.messages[reply.message], chat.tools);
    // The reply began behind an open block, or behind an empty one where reasoning was off.
    for (const std::vector<uint32_t>& head : {open, none}) {
      PromptHash before = encoder.hash();
      before.Add(head);
      const std::optional<ReplyMemory::Found> found = memory.Find(before, digest);
      if (!found) continue;
      encoder.Append(head);
      const size_t begin = encoder.result.ids.size();
      encoder.Append(*found->ids);
      encoder.result.notes.replies.push_back(
          {.begin = static_cast<uint32_t>(begin),
           .end = static_cast<uint32_t>(encoder.result.ids.size()),
           .digest = found->digest});
      encoder.SkipTo(reply.range.end);
      break;
    }
  }
  return {};
}

// The ids of the first `bytes` bytes, without one that reaches over their end. Where normalization
// changed the text's length the place is a little off, which costs a reuse but never a bit.
size_t IdsWithin(const text::Tokenizer& tokenizer, std::span<const uint32_t> ids, size_t bytes) {
  size_t place = 0;
  for (size_t at = 0; place < ids.size(); ++place) {
    const auto token = tokenizer.TokenBytes(ids[place]);
    at += token ? token->size() : 0;
    if (at > bytes) break;
  }
  return place;
}

}  // namespace

Result<std::vector<uint32_t>> EncodeReplyStart(const text::Tokenizer& tokenizer,
                                               const Request& request) {
  return tokenizer.Encode(request.reply_start, request.reply_literal);
}

Result<EncodedPrompt> EncodePrompt(const text::Tokenizer& tokenizer, const Request& request,
                                   ReplyMemory* replies) {
  EncodedPrompt prompt;
  prompt.ids = request.ids;
  if (request.chat) {
    SS_ASSIGN_OR_RETURN(const text::RenderedPrompt rendered, text::RenderChat(*request.chat));
    Encoder encoder(tokenizer, rendered);
    const bool cuts = tokenizer.FindAddedToken("<think>") && tokenizer.FindAddedToken("<|im_end|>");
    if (replies != nullptr && cuts) {
      SS_RETURN_IF_ERROR(Splice(tokenizer, *request.chat, rendered, *replies, encoder));
    }
    SS_RETURN_IF_ERROR(encoder.EncodeTo(rendered.text.size()));
    prompt = std::move(encoder.result);
    for (const size_t end : rendered.shared_ends) {
      prompt.notes.shared_ends.push_back(IdsWithin(tokenizer, prompt.ids, end));
    }
  } else if (request.text) {
    SS_ASSIGN_OR_RETURN(prompt.ids, tokenizer.Encode(*request.text));
  }
  SS_ASSIGN_OR_RETURN(const std::vector<uint32_t> start, EncodeReplyStart(tokenizer, request));
  prompt.ids.insert(prompt.ids.end(), start.begin(), start.end());
  return prompt;
}

}  // namespace slotstream::engine
