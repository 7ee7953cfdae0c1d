// tokenizer_tool TOKENIZER_JSON: one JSON value a line from standard input, one answer a line.
//   "text"             -> [ids]     encoded with added tokens
//   {"hex": "c3a9"}    -> [ids]     the same for bytes that need not be UTF-8
//   {"literal": "..."} -> [ids]     encoded without added tokens
//   [ids]              -> "text"    decoded; {"skip": [ids]} leaves special tokens out
// Decoding is done at once and token by token, and the two must agree.
#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace slotstream::text {
namespace {

using Json = nlohmann::json;

std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

Result<Json> Decode(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, bool skip) {
  SS_ASSIGN_OR_RETURN(const std::string whole, tokenizer.Decode(ids, skip));
  Detokenizer stream(tokenizer, skip);
  std::string pieces;
  for (TokenId id : ids) {
    SS_ASSIGN_OR_RETURN(const std::string piece, stream.Push(id));
    pieces += piece;
  }
  pieces += stream.Flush();
  if (pieces != whole) return Fail(ErrorCode::kInternal, "stream and whole decode differ");
  return Json(whole);
}

Result<Json> Answer(const Tokenizer& tokenizer, const Json& question) {
  if (question.is_array()) {
    return Decode(tokenizer, question.get<std::vector<TokenId>>(), /*skip=*/false);
  }
  if (question.contains("skip")) {
    return Decode(tokenizer, question["skip"].get<std::vector<TokenId>>(), /*skip=*/true);
  }
  if (question.contains("literal")) {
    SS_ASSIGN_OR_RETURN(auto ids,
                        tokenizer.EncodeUntrusted(question["literal"].get<std::string>()));
    return Json(ids);
  }
  const std::string text = question.is_string() ? question.get<std::string>()
                                                : FromHex(question["hex"].get<std::string>());
  SS_ASSIGN_OR_RETURN(auto ids, tokenizer.Encode(text));
  return Json(ids);
}

int Main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: tokenizer_tool TOKENIZER_JSON\n");
    return 2;
  }
  const auto tokenizer = Tokenizer::Load(argv[1]);
  if (!tokenizer) {
    fmt::print(stderr, "{}\n", tokenizer.error().message);
    return 1;
  }
  std::string line;
  while (std::getline(std::cin, line)) {
    const auto answer = Answer(*tokenizer, Json::parse(line));
    fmt::print("{}\n", answer ? answer->dump() : Json{{"error", answer.error().message}}.dump());
  }
  return 0;
}

}  // namespace
}  // namespace slotstream::text

int main(int argc, char** argv) { return slotstream::text::Main(argc, argv); }
