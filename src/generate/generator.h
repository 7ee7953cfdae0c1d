// The generation loop: prompt ids in, reply tokens out until something ends it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "generate/reply_parser.h"
#include "generate/sampling_params.h"
#include "model/model.h"
#include "state/sequence.h"
#include "text/tokenizer.h"

namespace slotstream::generate {

class ConstraintRun;

struct Generation {
  std::vector<uint32_t> prompt;  // at least one id
  // So many last ids of the prompt are the beginning of the reply: they are delivered with it.
  size_t reply_ids = 0;
  SamplingParams sampling;         // sanitized
  ReplyOptions reply;              // its stop strings are sampling.stop
  std::vector<uint32_t> stop_ids;  // tokens that end a reply; not delivered
  size_t max_context = 0;          // tokens of prompt and reply together
  // Places of the prompt, rising, whose states on_snapshot wants: the state that has read so many
  // of its ids.
  std::vector<size_t> snapshots;
  // Where the layers of the sequence come from during the first pass; null: they are there.
  state::ArrivingState* arriving = nullptr;
  bool single_call = false;  // the reply ends after its first complete tool call
  // Wants on_token, with so many alternatives; at most kMostAlternatives.
  std::optional<size_t> alternatives;
  // Holds the reply to a grammar; fresh, may be null. Log-probabilities stay the model's own.
  ConstraintRun* constraint = nullptr;
};

inline constexpr size_t kMostAlternatives = 20;  // OpenAI's bound

enum class FinishReason {
  kStopToken,  // or nothing else could follow
  kStopString,
  kLength,   // max_tokens
  kContext,  // the context is full
  kCall,     // a tool call is complete and was to be the only one
};
std::string_view FinishReasonName(FinishReason reason);

struct TokenLogProb {
  uint32_t id = 0;
  float log_prob = 0;  // natural logarithm
};

// A token that was chosen. Its probability is the model's own: softmax of the raw logits, without
// temperature, penalties or cuts.
struct ChosenToken {
  TokenLogProb chosen;
  std::vector<TokenLogProb> best;  // the likeliest tokens, falling; of equals the lowest id first
  bool in_answer = false;          // neither reasoning nor the tag that ends it
};

// Told of progress on the generating thread; each may be empty.
struct GenerationObserver {
  std::function<void(size_t done, size_t total)> on_prefill;  // prompt tokens
  // The states at Generation::snapshots as they are passed; and, where reading the prompt fails or
  // is cancelled, the state of its last complete pass.
  std::function<void(std::shared_ptr<const state::Sequence> state)> on_snapshot;
  // Before the events of the token; not for a token that ends the reply.
  std::function<void(const ChosenToken& token)> on_token;
  std::function<void(const ReplyEvent& event)> on_event;
  // Before each pass: nothing uses the stores now.
  std::function<void()> on_step;
};

struct GenerationResult {
  FinishReason reason = FinishReason::kStopToken;
  std::string stop_string;       // of kStopString
  std::vector<uint32_t> output;  // all tokens sampled, a final stop token included
  size_t prompt_tokens = 0;
  size_t cached_tokens = 0;     // of them, in the sequence already
  std::string prefix_note;      // of whoever brought the sequence: how it was found
  size_t reasoning_tokens = 0;  // of output
  uint64_t prefill_nanos = 0;   // to the first sampled token
  uint64_t decode_nanos = 0;    // from there to the last
};

// Runs the whole generation on `sequence`, which is fresh or has read a beginning of the prompt
// that leaves at least its last id; after success it has read the prompt and all of the output but
// the last token. `cancel` is looked at before every layer. Errors: kInvalidArgument (an empty
// prompt, an id without a token, a prompt that leaves no room), kCancelled, the stores'
// errors, and those of a state that arrives, after which nothing was delivered.
// Events delivered before an error stand.
Result<GenerationResult> Generate(model::Model& model, const text::Tokenizer& tokenizer,
                                  state::Sequence& sequence, const Generation& generation,
                                  const GenerationObserver& observer,
                                  const std::atomic<bool>& cancel, const Clock& clock);

}  // namespace slotstream::generate
