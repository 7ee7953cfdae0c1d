#include "text/detokenizer.h"

#include <utility>

#include "text/utf8.h"

namespace slotstream::text {

Result<std::string> Detokenizer::Push(TokenId id) {
  SS_ASSIGN_OR_RETURN(const std::string_view token, tokenizer_.TokenBytes(id));
  if (skip_special_ && tokenizer_.IsSpecial(id)) return std::string();
  pending_.append(token);

  std::string text;
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const size_t valid = ValidPrefix(rest);
    text.append(rest.substr(0, valid));
    rest.remove_prefix(valid);
    if (rest.empty()) break;
    const Scalar scalar = NextScalar(rest);
    if (scalar.kind == Scalar::Kind::kIncomplete) break;
    text.append(kReplacement);
    rest.remove_prefix(scalar.length);
  }
  pending_ = std::string(rest);
  return text;
}

std::string Detokenizer::Flush() {
  std::string text;
  AppendReplacingBroken(std::exchange(pending_, {}), text);
  return text;
}

}  // namespace slotstream::text
