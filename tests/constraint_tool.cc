// constraint_tool TOKENIZER_JSON: one JSON object a line from standard input, one answer a line.
//   {"schema": S, "seed": 1}  -> {"text": ...}  a document drawn from uniform logits
//   {"tools": [T], "seed": 1} -> {"text": ...}  tool calls, as the model would write them
// "strict": false leaves out what a tool's schema can't keep. "soft": from so many tokens on, what
// closes things is preferred (default 60). "most": a reply ends after so many (default 20000).
// Answers have the nanoseconds of each mask, the most work of one ("work") and its bound
// ("most_work"), what memory has grown by at most since the tokenizer
// was there ("grown") and what it may ("planned"); errors are {"error": ...}.
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "generate/constraint.h"
#include "generate/constraint_memory.h"
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

// Bytes that were resident at the same time at most.
uint64_t PeakBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoull(line.substr(6)) * 1024;
  }
  return 0;
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
  uint64_t work = 0;
  std::vector<float> logits;
  const size_t most = question.value("most", size_t{20'000});
  for (size_t count = 0; !run.Finished() && count < most; ++count) {
    logits.assign(tokenizer.vocab_size(), 0.0f);
    const auto start = Steady::now();
    run.Filter(logits);
    nanos.push_back((Steady::now() - start).count());
    work = std::max(work, run.mask_work());
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
  }
  return Json{{"text", text},
              {"ended", run.MayEnd()},
              {"compile", compiled.count()},
              {"nanos", nanos},
              {"work", work},
              {"most_work", MostMaskWork(tokenizer.vocab_size())},
              {"planned", ConstraintBytes(tokenizer.vocab_size())}};
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
  // What loading took for itself is given back, so that it hides no growth.
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << 5;  // the peak begins anew
  const uint64_t before = PeakBytes();
  VocabularyIndex index(*tokenizer);
  std::string line;
  while (std::getline(std::cin, line)) {
    const auto drawn = Draw(index, Json::parse(line));
    Json answer = drawn ? *drawn : Json{{"error", drawn.error().message}};
    answer["grown"] = PeakBytes() - before;
    // A reply that was cut may end within a character.
    fmt::print("{}\n", answer.dump(-1, ' ', false, Json::error_handler_t::replace));
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace slotstream::generate

int main(int argc, char** argv) { return slotstream::generate::Main(argc, argv); }
