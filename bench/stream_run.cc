#include "bench/stream_run.h"

#include <algorithm>

#include "base/clock.h"

namespace slotstream::bench {
namespace {

// As docs/CACHE.md's traces: what the model says, neither sharpened nor cut.
generate::SamplingParams Sampling() {
  generate::SamplingParams params;
  params.temperature = 1;
  params.top_p = 1;
  params.top_k = 0;
  params.presence_penalty = 0;
  params.seed = 1;
  return params.Sanitized();
}

}  // namespace

StreamRun::StreamRun(engine::LoadedModel& loaded)
    : loaded_(loaded),
      sequence_(loaded.config()),
      sampler_(Sampling(), loaded.config().vocab_size),
      logits_(loaded.config().vocab_size) {}

template <typename Work>
Result<StreamCost> StreamRun::Measure(size_t tokens, model::LookAheadMode look_ahead,
                                      const Work& work) {
  loaded_.model().UseLookAhead(look_ahead);
  const experts::StoreStats before = loaded_.experts().stats();
  const experts::LookAheadStats guessed = loaded_.model().look_ahead_stats();
  const uint64_t start = Clock::Steady().NowNanos();
  SS_RETURN_IF_ERROR(work());
  const auto seconds = [](uint64_t nanos) { return static_cast<double>(nanos) * 1e-9; };
  const experts::StoreStats after = loaded_.experts().stats();
  return StreamCost{
      .tokens = tokens,
      .seconds = seconds(Clock::Steady().NowNanos() - start),
      .bytes = after.bytes_read - before.bytes_read,
      .misses = after.misses + after.swept - before.misses - before.swept,
      .hits = after.hits - before.hits,
      .read_ahead = after.read_ahead - before.read_ahead,
      .wasted = after.wasted - before.wasted,
      .guesses = loaded_.model().look_ahead_stats().guesses - guessed.guesses,
      .right = loaded_.model().look_ahead_stats().right - guessed.right,
      .read_seconds = seconds(after.read_nanos - before.read_nanos),
      .waited_seconds = seconds(after.wait_nanos - before.wait_nanos),
  };
}

Result<StreamCost> StreamRun::Decode(size_t tokens, model::LookAheadMode look_ahead) {
  return Measure(tokens, look_ahead, [&]() -> Status {
    for (size_t i = 0; i < tokens; ++i) {
      model::Pass pass;
      pass.ids = std::span(&next_, 1);
      pass.logit_rows = 1;
      pass.logits = logits_.data();
      SS_RETURN_IF_ERROR(loaded_.model().Forward(pass, sequence_));
      next_ = sampler_.Sample(logits_);
    }
    return {};
  });
}

Result<StreamCost> StreamRun::Prefill(size_t tokens, model::LookAheadMode look_ahead) {
  std::vector<uint32_t> ids(tokens);
  for (uint32_t& id : ids) id = static_cast<uint32_t>(random_() % loaded_.config().vocab_size);
  return Measure(tokens, look_ahead, [&]() -> Status {
    state::Sequence sequence(loaded_.config());
    const size_t most = loaded_.model().max_rows();
    for (size_t first = 0; first < tokens; first += most) {
      const size_t rows = std::min(most, tokens - first);
      model::Pass pass;
      pass.ids = std::span(ids).subspan(first, rows);
      pass.rows_after = tokens - first - rows;
      pass.logit_rows = pass.rows_after == 0 ? 1 : 0;
      pass.logits = logits_.data();
      pass.admit_experts = pass.rows_after == 0;
      SS_RETURN_IF_ERROR(loaded_.model().Forward(pass, sequence));
    }
    return {};
  });
}

}  // namespace slotstream::bench
