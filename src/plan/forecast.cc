#include "plan/forecast.h"

#include <algorithm>
#include <cmath>

#include "plan/hit_rate.h"

namespace slotstream::plan {
namespace {

// What the rates do not show, as measured on two cores of Zen 3 (docs/MEMORY.md).
// Norms, attention, routing and all else between a reply's products, as a share of these: a tenth
// of a layer's, less of the head's.
constexpr double kOtherWork = 0.1;
// The same of a pass of many rows, where the delta rule and attention weigh more.
constexpr double kOtherPassWork = 0.15;
// The share of a reply's misses that look-ahead asks for while the layer before computes, and what
// it reads in vain beside them.
constexpr double kReadAhead = 0.36;
constexpr double kReadInVain = 0.05;

// One choice out of each range: all of the worst, the middle or the best.
struct Rates {
  double hit_rate;
  double single, full, ordered, rows, core_seconds;  // of the disk
  double memory, row_weights, dense_pass, expert_pass;
};

Rates Pick(const Range& hit_rate, const DiskRates& disk, const ComputeRates& compute,
           double Range::* which) {
  return {.hit_rate = hit_rate.*which,
          .single = disk.single.*which,
          .full = disk.full.*which,
          .ordered = disk.ordered.*which,
          .rows = disk.rows_per_second,
          .core_seconds = disk.core_seconds,
          .memory = compute.memory.*which,
          .row_weights = compute.row_weights.*which,
          .dense_pass = compute.dense_pass.*which,
          .expert_pass = compute.expert_pass.*which};
}

double RowSeconds(const ModelShape& shape, const Rates& rates, double tokens) {
  return shape.ngram_rows > 0 && rates.rows > 0 ? tokens * shape.ngram_rows / rates.rows : 0;
}

struct TokenTime {
  double compute = 0;
  double wait = 0;
  double total() const { return compute + wait; }
};

// A token: everything is computed, and each layer waits for its missing experts, but for what can
// be computed while they arrive: the layer's other experts, and the layer before as far as
// look-ahead names the right ones. The first of them takes as long as a record alone, each further
// one what the full rate gives. Nor is a token faster than the disk reads what it needs. What
// reading takes from the cores slows the arithmetic beside it; while all wait it costs nothing, but
// a faster disk, of which more is hidden, is no slower for that.
TokenTime DecodeTime(const ModelShape& shape, const Rates& rates, int threads) {
  const auto state = static_cast<double>(shape.cost.state_bytes);
  const double weights = static_cast<double>(shape.cost.decode_bytes) - state;
  const double layers = shape.config.num_layers(), chosen = shape.config.experts_per_token;
  const double misses = chosen * (1 - rates.hit_rate);
  const double bytes = layers * misses * shape.record_bytes;
  const double alone = (weights / rates.row_weights + state / rates.memory) * (1 + kOtherWork);
  const double any = 1 - std::pow(rates.hit_rate, chosen);
  const double read =
      shape.record_bytes * (any / rates.single + std::max(0.0, misses - any) / rates.full);
  // All but the expert that arrives last.
  const double meanwhile = (chosen - 1) * shape.expert_bytes / rates.row_weights;
  const double hidden = std::min({read, alone / layers, kReadAhead * read + meanwhile});
  const double taken = bytes * rates.core_seconds / threads;
  const double slowed = read > 0 ? taken * hidden / read : 0;
  const double least = bytes * (1 + kReadInVain) / rates.full;
  TokenTime time;
  time.compute = alone + slowed;
  time.wait = std::max({layers * (read - hidden), taken - slowed, least - time.compute}) +
              RowSeconds(shape, rates, 1);
  return time;
}

// The products of `touched` experts of a layer with `rows` rows altogether. A row alone costs what
// its weights take to arrive, kExpertPassRows share that; what lies between is interpolated.
double ExpertSeconds(const ModelShape& shape, const Rates& rates, double rows, double touched) {
  const double alone = shape.expert_bytes / rates.row_weights;
  const double many = kExpertPassRows * shape.expert_operations / rates.expert_pass;
  const double each = rows / touched;
  const double share = (std::clamp<double>(each, 1, kExpertPassRows) - 1) / (kExpertPassRows - 1);
  const double interpolated = touched * std::lerp(std::min(alone, many), many, share);
  return std::max(interpolated, rows * shape.expert_operations / rates.expert_pass);
}

// A pass of many rows: per layer the trunk's products, then the experts. The `misses` of a layer
// are read in file order while both are computed, but the trunk's products hide no more than the
// share of them that staging has frames for.
double PassTime(const ModelShape& shape, const Rates& rates, const Plan& plan, double misses,
                double touched) {
  const double rows = plan.pass_rows;
  const double layers = shape.config.num_layers(), chosen = shape.config.experts_per_token;
  const double expert_operations = layers * chosen * shape.expert_operations;
  const double dense =
      (shape.cost.operations - shape.cost.head_operations - expert_operations) / layers;
  const double bytes = misses * shape.record_bytes;
  const double trunk = rows * dense / rates.dense_pass * (1 + kOtherPassWork);
  const double compute = ExpertSeconds(shape, rates, rows * chosen, touched) +
                         bytes * rates.core_seconds / plan.threads;
  const double read = bytes / rates.ordered;
  const double lacking = shape.config.num_experts - plan.slots / layers;
  const double staged = lacking > 0 ? std::min(1.0, plan.sweep_records / lacking) : 1;
  const double late = read - std::min(trunk, staged * read);
  return layers * (trunk + std::max(late, compute)) + RowSeconds(shape, rates, rows);
}

}  // namespace

ModelShape ShapeOf(const checkpoint::Checkpoint& checkpoint) {
  ModelShape shape;
  shape.config = checkpoint.config();
  shape.cost = CostOf(checkpoint);
  const checkpoint::ExpertShape& expert = checkpoint.experts().shape();
  shape.record_bytes = static_cast<double>(expert.record_bytes());
  shape.expert_bytes = static_cast<double>(expert.bytes());
  for (const checkpoint::PanelShape& panels : {expert.gate, expert.up, expert.down}) {
    shape.expert_operations += 2.0 * panels.n * panels.k;
  }
  shape.ngram_rows =
      static_cast<double>(shape.config.ple_layers.size() * shape.config.ngram_heads());
  return shape;
}

Forecast MakeForecast(const ModelShape& shape, const Plan& plan, const DiskRates& disk,
                      const ComputeRates& compute) {
  Forecast forecast;
  forecast.hit_rate = HitRate(shape.config, plan.slots);
  const auto at = [&](double Range::* which) {
    const Rates rates = Pick(forecast.hit_rate, disk, compute, which);
    const TokenTime token = DecodeTime(shape, rates, plan.threads);
    const double misses = MissesOfPass(shape.config, plan.slots, plan.pass_rows, which);
    forecast.decode.*which = 1 / token.total();
    // Without a pool all that a pass touches are misses.
    const double touched = MissesOfPass(shape.config, 0, plan.pass_rows, which);
    forecast.prefill.*which = plan.pass_rows / PassTime(shape, rates, plan, misses, touched);
    return token;
  };
  at(&Range::low);
  at(&Range::high);
  const TokenTime typical = at(&Range::typical);
  forecast.disk_share = typical.wait / typical.total();
  forecast.read_per_token = shape.config.num_layers() * shape.config.experts_per_token *
                            (1 - forecast.hit_rate.typical) * shape.record_bytes;
  return forecast;
}

}  // namespace slotstream::plan
