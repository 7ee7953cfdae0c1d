// constraint_tool TOKENIZER_JSON: one JSON object a line from standard input, one answer a line.
//   {"schema": S, "seed": 1}  -> {"text": ...}  a document drawn from uniform logits
//   {"tools": [T], "seed": 1} -> {"text": ...}  tool calls, as the model would write them
// "strict": false leaves out what a tool's schema can't keep. "soft": from so many tokens on, what
// closes things is preferred (default 60). Answers have the nanoseconds of each mask, too; errors
// are {"error": ...}.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "generate/reply_shape.h"

namespace slotstream::generate {
namespace {

using Json = text::OrderedJson;

Result<ReplyShape> ReadShape(const Json& question) {
  ReplyShape shape;
  if (question.contains("schema")) {
    shape.document = ReplyShape::Document::kSchema;
    shape.schema = question["schema"];
    shape.schema_place = "schema";
    return shape;
  }
  shape.calls = ReplyShape::Calls::kForced;
  shape.tools = question.at("tools");
  for (const Json& tool : shape.tools) {
    if (question.value("strict", true))
      shape.strict.insert(tool.at("function").at("name").get<std::string>());
  }
  return shape;
}

bool Closes(std::string_view bytes) {
  return bytes.find_first_not_of("\"]}\n") == std::string_view::npos;
}

Result<Json> Draw(VocabularyIndex& index, const Json& question) {
  using Steady = std::chrono::steady_clock;
  const text::Tokenizer& tokenizer = index.tokenizer();
  SS_ASSIGN_OR_RETURN(const ReplyShape shape, ReadShape(question));
  const auto begin = Steady::now();
  SS_ASSIGN_OR_RETURN(const auto constraint, MakeConstraint(shape));
  const auto compiled = Steady::now() - begin;
  const uint32_t stop = tokenizer.FindAddedToken("<|im_end|>").value_or(0);
  ConstraintRun run(*constraint, index, {stop}, /*in_reasoning=*/false);
  std::mt19937 rng(question.value("seed", 1u));
  const size_t soft = question.value("soft", size_t{60});
  std::string text;
  Json nanos = Json::array();
  std::vector<float> logits;
  for (size_t count = 0; !run.Finished(); ++count) {
    logits.assign(tokenizer.vocab_size(), 0.0f);
    const auto start = Steady::now();
    run.Filter(logits);
    nanos.push_back((Steady::now() - start).count());
    std::vector<uint32_t> ids, closing;
    for (uint32_t id = 0; id < logits.size(); ++id) {
      if (logits[id] != 0) continue;
      ids.push_back(id);
      if (count > soft && (id == stop || Closes(*tokenizer.TokenBytes(id)))) closing.push_back(id);
    }
    if (ids.empty()) return Fail(ErrorCode::kInternal, "nothing may follow " + text);
    const std::vector<uint32_t>& from = closing.empty() ? ids : closing;
    const uint32_t id = from[rng() % from.size()];
    if (!run.Accept(id)) return Fail(ErrorCode::kInternal, "allowed, but not accepted: " + text);
    if (id == stop) break;
    text += *tokenizer.TokenBytes(id);
    if (count > 20'000) return Fail(ErrorCode::kInternal, "no end: " + text);
  }
  return Json{{"text", text}, {"compile", compiled.count()}, {"nanos", nanos}};
}

int Main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: constraint_tool TOKENIZER_JSON\n");
    return 2;
  }
  const auto tokenizer = text::Tokenizer::Load(argv[1]);
  if (!tokenizer) {
    fmt::print(stderr, "{}\n", tokenizer.error().message);
    return 1;
  }
  VocabularyIndex index(*tokenizer);
  std::string line;
  while (std::getline(std::cin, line)) {
    const auto answer = Draw(index, Json::parse(line));
    fmt::print("{}\n", answer ? answer->dump() : Json{{"error", answer.error().message}}.dump());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace slotstream::generate

int main(int argc, char** argv) { return slotstream::generate::Main(argc, argv); }
