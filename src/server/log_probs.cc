#include "server/log_probs.h"

#include "text/utf8.h"

namespace slotstream::server {
namespace {

// The bytes of a token may be part of a character.
std::string Readable(std::string_view bytes) {
  std::string text;
  text::AppendReplacingBroken(bytes, text);
  return text;
}

Json TokenJson(const text::Tokenizer& tokenizer, const generate::TokenLogProb& token) {
  const std::string_view bytes = tokenizer.TokenBytes(token.id).value_or("");
  Json list = Json::array();
  for (char c : bytes) list.push_back(static_cast<unsigned char>(c));
  return {{"token", Readable(bytes)}, {"logprob", token.log_prob}, {"bytes", std::move(list)}};
}

}  // namespace

Json LogProbsJson(const text::Tokenizer& tokenizer,
                  const std::vector<generate::ChosenToken>& tokens) {
  Json list = Json::array();
  for (const generate::ChosenToken& token : tokens) {
    Json entry = TokenJson(tokenizer, token.chosen);
    entry["top_logprobs"] = Json::array();
    for (const generate::TokenLogProb& best : token.best) {
      entry["top_logprobs"].push_back(TokenJson(tokenizer, best));
    }
    list.push_back(std::move(entry));
  }
  return list;
}

Json LegacyLogProbsJson(const text::Tokenizer& tokenizer,
                        const std::vector<generate::ChosenToken>& tokens, size_t& offset) {
  Json texts = Json::array(), values = Json::array(), tops = Json::array(), offsets = Json::array();
  for (const generate::ChosenToken& token : tokens) {
    const std::string_view bytes = tokenizer.TokenBytes(token.chosen.id).value_or("");
    texts.push_back(Readable(bytes));
    values.push_back(token.chosen.log_prob);
    Json top = Json::object();
    for (const generate::TokenLogProb& best : token.best) {
      top[Readable(tokenizer.TokenBytes(best.id).value_or(""))] = best.log_prob;
    }
    tops.push_back(std::move(top));
    offsets.push_back(offset);
    offset += bytes.size();
  }
  return {{"tokens", std::move(texts)},
          {"token_logprobs", std::move(values)},
          {"top_logprobs", std::move(tops)},
          {"text_offset", std::move(offsets)}};
}

}  // namespace slotstream::server
