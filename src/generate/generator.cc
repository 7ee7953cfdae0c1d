#include "generate/generator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>

#include "generate/constraint.h"
#include "generate/log_sum_exp.h"
#include "generate/sampler.h"

namespace slotstream::generate {
namespace {

Status CheckPrompt(const Generation& generation, const state::Sequence& sequence) {
  if (generation.prompt.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "the prompt is empty; give at least one token");
  }
  if (generation.prompt.size() >= generation.max_context) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("the prompt has {} tokens, but prompt and reply together may have {}; "
                            "shorten the prompt or raise --max-context",
                            generation.prompt.size(), generation.max_context));
  }
  if (sequence.length() >= generation.prompt.size()) {
    return Fail(ErrorCode::kInternal,
                fmt::format("a state of {} tokens for a prompt of {} leaves none to read",
                            sequence.length(), generation.prompt.size()));
  }
  return {};
}

// Hands out the states that a prompt is read through.
class Snapshots {
 public:
  Snapshots(const Generation& generation, const GenerationObserver& observer, size_t begin)
      : observer_(observer), places_(generation.snapshots) {
    while (!places_.empty() && places_[0] <= begin) Pop();
  }

  // Captures for a pass of the tokens [first, end).
  model::Captures<state::Sequence> Within(size_t first, size_t end,
                                          const checkpoint::ModelConfig& config) {
    captures_.clear();
    if (!observer_.on_snapshot) return captures_;
    for (; !places_.empty() && places_[0] < end; Pop()) {
      states_.push_back(std::make_shared<state::Sequence>(config));
      captures_.push_back({places_[0] - first, states_.back().get()});
    }
    return captures_;
  }

  // The pass is complete, and another follows.
  void Passed(const state::Sequence& sequence) {
    Deliver();
    if (!observer_.on_snapshot) return;
    if (!places_.empty() && places_[0] == sequence.length()) {
      Pop();
      last_.reset();
      observer_.on_snapshot(std::make_shared<state::Sequence>(sequence));
    } else if (last_) {
      *last_ = sequence;
    } else {
      last_ = std::make_shared<state::Sequence>(sequence);
    }
  }

  void Deliver() {
    for (auto& state : states_) observer_.on_snapshot(std::move(state));
    states_.clear();
  }

  // The pass failed.
  void Rescue() {
    if (last_) observer_.on_snapshot(std::move(last_));
  }

 private:
  void Pop() { places_ = places_.subspan(1); }

  const GenerationObserver& observer_;
  std::span<const size_t> places_;
  std::vector<model::Capture<state::Sequence>> captures_;
  std::vector<std::shared_ptr<state::Sequence>> states_;  // of the pass under way
  std::shared_ptr<state::Sequence> last_;                 // behind the last complete pass
};

// Reads the rest of the prompt in passes; the last row's logits arrive with the last pass.
Status Prefill(model::Model& model, state::Sequence& sequence, const Generation& generation,
               const GenerationObserver& observer, const std::atomic<bool>& cancel,
               std::span<float> logits) {
  const std::span<const uint32_t> prompt(generation.prompt);
  Snapshots snapshots(generation, observer, sequence.length());
  state::ArrivingState* arriving = generation.arriving;
  for (size_t first = sequence.length(); first < prompt.size();) {
    const size_t rows = std::min(model.max_rows(), prompt.size() - first);
    const bool last = first + rows == prompt.size();
    model::Pass pass;
    pass.ids = prompt.subspan(first, rows);
    pass.captures = snapshots.Within(first, first + rows, model.config());
    pass.logit_rows = last ? 1 : 0;
    pass.logits = logits.data();
    pass.admit_experts = last;
    pass.rows_after = prompt.size() - first - rows;
    pass.cancel = &cancel;
    pass.arriving = std::exchange(arriving, nullptr);
    if (observer.on_step) observer.on_step();
    if (Status status = model.Forward(pass, sequence); !status) {
      snapshots.Rescue();
      return status;
    }
    first += rows;
    if (last) {
      snapshots.Deliver();
    } else {
      snapshots.Passed(sequence);
    }
    if (observer.on_prefill) observer.on_prefill(first, prompt.size());
  }
  return {};
}

// The log-probabilities of `id` and of the `count` likeliest of the first `tokens` logits.
ChosenToken LogProbs(std::span<const float> logits, uint32_t id, size_t count) {
  const LogSumExp sum(logits);
  const auto log_prob = [&](uint32_t token) {
    return static_cast<float>(sum.LogProbability(logits[token]));
  };
  ChosenToken result;
  result.chosen = {id, log_prob(id)};
  std::vector<uint32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0u);
  const auto end = ids.begin() + static_cast<ptrdiff_t>(std::min(count, ids.size()));
  std::partial_sort(ids.begin(), end, ids.end(), [&](uint32_t a, uint32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  });
  for (auto best = ids.begin(); best != end; ++best) {
    result.best.push_back({*best, log_prob(*best)});
  }
  return result;
}

// The constraint's choice: of the logits without what can't follow.
uint32_t SampleHeld(Sampler& sampler, ConstraintRun& constraint, std::span<const float> logits,
                    std::vector<float>& held) {
  held.assign(logits.begin(), logits.end());
  constraint.Filter(held);
  const uint32_t id = sampler.Sample(held);
  if (id < held.size() && !std::isinf(held[id])) return id;
  // The model's logits are infinite or no numbers wherever the constraint leaves a choice.
  const auto open = std::ranges::find_if(
      held, [](float logit) { return logit != -std::numeric_limits<float>::infinity(); });
  return open == held.end() ? id : static_cast<uint32_t>(open - held.begin());
}

}  // namespace

std::string_view FinishReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStopToken:
      return "stop";
    case FinishReason::kStopString:
      return "stop_string";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kContext:
      return "context";
    case FinishReason::kCall:
      return "call";
  }
  return "unknown";
}

Result<GenerationResult> Generate(model::Model& model, const text::Tokenizer& tokenizer,
                                  state::Sequence& sequence, const Generation& generation,
                                  const GenerationObserver& observer,
                                  const std::atomic<bool>& cancel, const Clock& clock) {
  SS_RETURN_IF_ERROR(CheckPrompt(generation, sequence));
  std::vector<float> logits(model.config().vocab_size);
  const size_t tokens = std::min<size_t>(tokenizer.vocab_size(), logits.size());
  Sampler sampler(generation.sampling, tokens);
  sampler.AcceptPrompt(generation.prompt);
  ReplyParser parser(tokenizer, generation.reply);
  std::vector<ReplyEvent> events;
  bool called = false;
  const auto deliver = [&] {
    for (const ReplyEvent& event : events) called |= event.kind == ReplyEvent::Kind::kCallEnd;
    if (observer.on_event) {
      for (const ReplyEvent& event : events) observer.on_event(event);
    }
    events.clear();
  };

  GenerationResult result;
  result.prompt_tokens = generation.prompt.size();
  const uint64_t start = clock.NowNanos();
  result.cached_tokens = sequence.length();
  SS_RETURN_IF_ERROR(Prefill(model, sequence, generation, observer, cancel, logits));
  const uint64_t prefilled = clock.NowNanos();
  result.prefill_nanos = prefilled - start;

  ConstraintRun* const constraint = generation.constraint;
  std::vector<float> held;  // the logits that a constraint leaves
  const std::span<const uint32_t> given(generation.prompt);
  for (uint32_t id : given.last(std::min(generation.reply_ids, given.size()))) {
    SS_RETURN_IF_ERROR(parser.Push(id, events));
    if (constraint != nullptr && !constraint->Accept(id)) {
      return Fail(ErrorCode::kInternal, "the reply's given beginning contradicts its constraint");
    }
  }
  deliver();

  const auto max_tokens = static_cast<size_t>(generation.sampling.max_tokens);
  for (;;) {
    const uint32_t id = constraint == nullptr ? sampler.Sample(logits)
                                              : SampleHeld(sampler, *constraint, logits, held);
    sampler.Accept(id);
    result.output.push_back(id);
    if (std::ranges::find(generation.stop_ids, id) != generation.stop_ids.end()) {
      result.reason = FinishReason::kStopToken;
      break;
    }
    if (parser.in_reasoning()) ++result.reasoning_tokens;
    if (generation.alternatives && observer.on_token) {
      ChosenToken token = LogProbs(std::span<const float>(logits).first(tokens), id,
                                   std::min(*generation.alternatives, kMostAlternatives));
      token.in_answer = !parser.in_reasoning();
      observer.on_token(token);
    }
    SS_RETURN_IF_ERROR(parser.Push(id, events));
    deliver();
    if (constraint != nullptr && !constraint->Accept(id)) {
      return Fail(ErrorCode::kInternal, "a token was chosen that the constraint excludes");
    }
    if (called && generation.single_call) {
      result.reason = FinishReason::kCall;
      break;
    }
    if (parser.stop()) {
      result.reason = FinishReason::kStopString;
      result.stop_string = *parser.stop();
      break;
    }
    if (constraint != nullptr && constraint->Finished()) {
      result.reason = FinishReason::kStopToken;
      break;
    }
    if (result.output.size() >= max_tokens) {
      result.reason = FinishReason::kLength;
      break;
    }
    if (sequence.length() + 1 >= generation.max_context) {
      result.reason = FinishReason::kContext;
      break;
    }
    model::Pass pass;
    pass.ids = std::span(&id, 1);
    pass.logit_rows = 1;
    pass.logits = logits.data();
    pass.cancel = &cancel;
    if (observer.on_step) observer.on_step();
    SS_RETURN_IF_ERROR(model.Forward(pass, sequence));
  }
  parser.Flush(events);
  deliver();
  result.decode_nanos = clock.NowNanos() - prefilled;
  return result;
}

}  // namespace slotstream::generate
