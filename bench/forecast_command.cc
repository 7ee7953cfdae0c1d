#include "bench/forecast_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "bench/paced_backend.h"
#include "bench/rounds.h"
#include "bench/stream_run.h"
#include "engine/examination.h"
#include "engine/loaded_model.h"
#include "plan/hit_rate.h"

namespace slotstream::bench {
namespace {

constexpr int kRounds = 3;

// One figure of the rounds of one size, and what was foretold for it.
struct Figures {
  std::vector<double> value, forecast;
  void Add(double measured, double told) {
    value.push_back(measured);
    forecast.push_back(told);
  }
};

class ForecastComparison {
 public:
  ForecastComparison(const ForecastOptions& options, const Setup& setup)
      : options_(options),
        table_(setup.tables.front()),
        rounds_(options.common.quick ? 1 : std::max(options.common.rounds, 0)) {
    if (rounds_ == 0) rounds_ = kRounds;
    threads_ = *std::max_element(setup.threads.begin(), setup.threads.end());
    mode_ = options.common.modes.empty() ? kernels::kDefaultComputeMode : setup.modes.front();
  }

  Result<std::vector<Row>> Run() {
    for (const double gb : options_.memory_gb) SS_RETURN_IF_ERROR(Measure(gb));
    return std::move(rows_);
  }

 private:
  std::function<Result<std::unique_ptr<io::ReadBackend>>(size_t)> Backend() const {
    return [rate = options_.disk_gb_s](size_t depth) { return MakePacedBackend(depth, rate); };
  }

  plan::Wishes WishesFor(double gb) const {
    plan::Wishes wishes;
    wishes.compute = mode_;
    wishes.threads = threads_;
    wishes.memory_bytes = static_cast<uint64_t>(gb * 1e9);
    wishes.pass_rows = static_cast<uint32_t>(options_.pass);
    return wishes;
  }

  // The machine's rates of this minute, and what the planner makes of them for `plan`.
  Result<plan::Forecast> Foretell(double gb, const plan::Plan& plan,
                                  const plan::ModelShape& shape) {
    engine::ExaminationOptions examine;
    examine.directory = options_.directory;
    examine.wishes = WishesFor(gb);
    examine.kernels = std::string(table_->name);
    examine.make_backend = Backend();
    examine.measure = !options_.common.quick;
    SS_ASSIGN_OR_RETURN(const engine::Examination found, engine::Examine(examine, Clock::Steady()));
    fmt::print(
        stderr,
        "disk: {:.2f}, {:.2f}, {:.2f} GB/s, {:.2f} s of a core/GB; weights {:.1f} GB/s; {:.0f}, "
        "{:.0f} Gop/s\n",
        found.disk_rates.single.typical * 1e-9, found.disk_rates.full.typical * 1e-9,
        found.disk_rates.ordered.typical * 1e-9, found.disk_rates.core_seconds * 1e9,
        found.compute.row_weights.typical * 1e-9, found.compute.dense_pass.typical * 1e-9,
        found.compute.expert_pass.typical * 1e-9);
    return plan::MakeForecast(shape, plan, found.disk_rates, found.compute);
  }

  Status Measure(double gb) {
    engine::LoadOptions load;
    load.directory = options_.directory;
    load.kernels = std::string(table_->name);
    load.wishes = WishesFor(gb);
    load.make_backend = Backend();
    std::vector<std::string> notes;
    SS_ASSIGN_OR_RETURN(const auto loaded, engine::LoadedModel::Load(load, {}, notes));
    fmt::print(stderr, "{}, {} records staged\n", loaded->plan().Summary(),
               loaded->plan().sweep_records);
    const plan::ModelShape shape = plan::ShapeOf(loaded->checkpoint());
    StreamRun run(*loaded);
    SS_RETURN_IF_ERROR(run.Decode(options_.warm, model::LookAheadMode::kAuto));
    Figures decode, hits, prefill, missed;
    const plan::Plan& plan = loaded->plan();
    SS_ASSIGN_OR_RETURN(plan::Forecast before, Foretell(gb, plan, shape));
    for (int round = 0; round < rounds_; ++round) {
      SS_ASSIGN_OR_RETURN(const StreamCost tokens,
                          run.Decode(options_.decode, model::LookAheadMode::kAuto));
      SS_ASSIGN_OR_RETURN(const plan::Forecast after, Foretell(gb, plan, shape));
      decode.Add(tokens.speed(), Mean(before.decode, after.decode));
      hits.Add(tokens.hit_rate(), after.hit_rate.typical);
      before = after;
    }
    // Behind all replies: prompts of strangers leave their experts in the pool.
    for (int round = 0; round < rounds_ && options_.prompt > 0; ++round) {
      SS_ASSIGN_OR_RETURN(const StreamCost prompt,
                          run.Prefill(options_.prompt, model::LookAheadMode::kAuto));
      SS_ASSIGN_OR_RETURN(const plan::Forecast after, Foretell(gb, plan, shape));
      prefill.Add(prompt.speed(), Mean(before.prefill, after.prefill));
      const double passes = std::ceil(static_cast<double>(options_.prompt) / plan.pass_rows);
      missed.Add(
          static_cast<double>(prompt.misses) / passes / shape.config.num_layers(),
          plan::MissesOfPass(shape.config, plan.slots, plan.pass_rows, &plan::Range::typical));
      before = after;
    }
    AddRow(gb, "decode", "tokens/s", decode);
    AddRow(gb, "  found in the pool", "share", hits);
    if (options_.prompt > 0) {
      AddRow(gb, "prefill", "tokens/s", prefill);
      AddRow(gb, "  read for a pass", "experts of a layer", missed);
    }
    return {};
  }

  static double Mean(const plan::Range& a, const plan::Range& b) {
    return (a.typical + b.typical) / 2;
  }

  void AddRow(double gb, const char* name, const char* unit, const Figures& figures) {
    Row row;
    row.group = fmt::format("{:g} GB", gb);
    row.name = name;
    row.mode = kernels::NameOf(mode_);
    row.isa = std::string(table_->panel(mode_).instructions);
    row.threads = threads_;
    row.value = Median(figures.value);
    row.roof = Median(figures.forecast);
    row.unit = unit;
    row.rounds = row.counted = rounds_;
    rows_.push_back(std::move(row));
  }

  const ForecastOptions& options_;
  const kernels::KernelTable* table_;
  int rounds_;
  int threads_ = 1;
  kernels::ComputeMode mode_;
  std::vector<Row> rows_;
};

}  // namespace

Result<std::vector<Row>> MeasureForecast(const ForecastOptions& options) {
  SS_ASSIGN_OR_RETURN(const Setup setup, MakeSetup(options.common));
  return ForecastComparison(options, setup).Run();
}

}  // namespace slotstream::bench
