#include "bench/model_speed.h"

#include <fmt/format.h>

#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <span>

#include "base/clock.h"
#include "bench/busy_neighbour.h"
#include "engine/loaded_model.h"
#include "state/sequence.h"

namespace slotstream::bench {
namespace {

class ModelRun {
 public:
  ModelRun(engine::LoadedModel& loaded, size_t tokens)
      : loaded_(loaded), ids_(tokens), logits_(loaded.config().vocab_size) {
    // llama-bench takes random tokens too.
    std::mt19937 random(1);
    for (uint32_t& id : ids_) id = static_cast<uint32_t>(random() % loaded.config().vocab_size);
  }

  // Seconds of one pass over the first `tokens` ids.
  Result<double> Prefill(size_t tokens) {
    state::Sequence sequence(loaded_.config());
    const size_t pass = loaded_.model().max_rows();
    const uint64_t start = Clock::Steady().NowNanos();
    for (size_t first = 0; first < tokens; first += pass) {
      const size_t rows = std::min(pass, tokens - first);
      SS_RETURN_IF_ERROR(Forward(first, rows, first + rows == tokens, sequence));
    }
    return Seconds(start);
  }

  // Seconds of a token, mean over `tokens` passes of one.
  Result<double> Decode(size_t tokens) {
    state::Sequence sequence(loaded_.config());
    const uint64_t start = Clock::Steady().NowNanos();
    for (size_t i = 0; i < tokens; ++i) SS_RETURN_IF_ERROR(Forward(i, 1, true, sequence));
    return Seconds(start) / static_cast<double>(tokens);
  }

 private:
  Status Forward(size_t first, size_t rows, bool last, state::Sequence& sequence) {
    model::Pass pass;
    pass.ids = std::span(ids_).subspan(first, rows);
    pass.logit_rows = last ? 1 : 0;
    pass.logits = logits_.data();
    pass.admit_experts = true;
    return loaded_.model().Forward(pass, sequence);
  }
  static double Seconds(uint64_t start) {
    return static_cast<double>(Clock::Steady().NowNanos() - start) * 1e-9;
  }

  engine::LoadedModel& loaded_;
  std::vector<uint32_t> ids_;
  std::vector<float> logits_;
};

}  // namespace

Result<ModelSpeed> MeasureSpeed(const ModelConfiguration& configuration, QuietCores& cores) {
  engine::LoadOptions options;
  options.directory = configuration.directory;
  options.kernels = std::string(configuration.table->name);
  options.wishes.slots = std::numeric_limits<uint32_t>::max();  // all
  options.wishes.compute = configuration.mode;
  options.wishes.threads = configuration.threads;
  options.wishes.pass_rows = static_cast<uint32_t>(configuration.prompt);
  const size_t tokens = std::max(configuration.prompt, configuration.decode);
  options.wishes.max_context = static_cast<uint32_t>(tokens + 1);
  std::vector<std::string> notes;
  SS_ASSIGN_OR_RETURN(const std::unique_ptr<engine::LoadedModel> loaded,
                      engine::LoadedModel::Load(options, {}, notes));
  // What is measured here has nothing to read; guesses would still fetch what no row asks for.
  loaded->model().UseLookAhead(model::LookAheadMode::kOff);
  ModelRun run(*loaded, tokens);
  // The same ids choose the same experts, so after this all that are needed are in the pool.
  SS_RETURN_IF_ERROR(run.Prefill(configuration.prompt));
  SS_RETURN_IF_ERROR(run.Decode(configuration.decode));
  const uint64_t read = loaded->experts().stats().bytes_read;

  ModelSpeed speed;
  const auto measure = [&](std::optional<double>& seconds,
                           const std::function<Result<double>()>& work) -> Status {
    QuietWindow window(cores, configuration.threads);
    SS_ASSIGN_OR_RETURN(const double measured, work());
    if (window.Counts()) seconds = measured;
    return {};
  };
  SS_RETURN_IF_ERROR(measure(speed.prefill, [&] { return run.Prefill(configuration.prompt); }));
  SS_RETURN_IF_ERROR(measure(speed.decode, [&] { return run.Decode(configuration.decode); }));
  if (configuration.neighbour) {
    SS_RETURN_IF_ERROR(measure(speed.disturbed, [&] {
      const BusyNeighbour neighbour;
      return run.Decode(configuration.decode);
    }));
  }
  if (const uint64_t now = loaded->experts().stats().bytes_read; now != read) {
    return Fail(ErrorCode::kInternal,
                fmt::format("{} bytes of experts were read while measuring {}, which should have "
                            "had them all in memory",
                            now - read, configuration.directory));
  }
  return speed;
}

}  // namespace slotstream::bench
