#include "plan/forecast.h"

#include <algorithm>
#include <cmath>

#include "plan/hit_rate.h"

namespace slotstream::plan {
namespace {

// One choice out of each range: all of the worst, the middle or the best.
struct Rates {
  double hit_rate;
  double single, full, rows;  // of the disk
  double memory, row_weights, dense_pass, expert_pass;
};

template <typename Choose>
Rates Pick(const Range& hit_rate, const DiskRates& disk, const ComputeRates& compute,
           const Choose& choose) {
  return {.hit_rate = choose(hit_rate),
          .single = choose(disk.single),
          .full = choose(disk.full),
          .rows = disk.rows_per_second,
          .memory = choose(compute.memory),
          .row_weights = choose(compute.row_weights),
          .dense_pass = choose(compute.dense_pass),
          .expert_pass = choose(compute.expert_pass)};
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
// be computed while they arrive. The first of them takes as long as a record alone, each further
// one what the full rate gives.
TokenTime DecodeTime(const ModelShape& shape, const Rates& rates) {
  const auto state = static_cast<double>(shape.cost.state_bytes);
  const double weights = static_cast<double>(shape.cost.decode_bytes) - state;
  const double chosen = shape.config.experts_per_token;
  const double expert = shape.expert_bytes / rates.row_weights;
  TokenTime time;
  time.compute = weights / rates.row_weights + state / rates.memory;
  const double misses = chosen * (1 - rates.hit_rate);
  const double any = 1 - std::pow(rates.hit_rate, chosen);
  const double read =
      shape.record_bytes * (any / rates.single + std::max(0.0, misses - any) / rates.full);
  // All but the expert that arrives last.
  const double meanwhile = (chosen - 1) * expert;
  time.wait =
      shape.config.num_layers() * std::max(0.0, read - meanwhile) + RowSeconds(shape, rates, 1);
  return time;
}

// A pass of many rows: per layer the trunk's products, then the experts, of which nearly all are
// needed; what the pool lacks is read meanwhile, but for the first record.
double PassTime(const ModelShape& shape, const Rates& rates, double rows, double slots) {
  const double layers = shape.config.num_layers();
  const double chosen = shape.config.experts_per_token, experts = shape.config.num_experts;
  const double expert_operations = layers * chosen * shape.expert_operations;
  const double dense = shape.cost.operations - shape.cost.head_operations - expert_operations;
  const double needed = experts * (1 - std::pow(1 - chosen / experts, rows));
  const double missing = needed * std::max(0.0, 1 - slots / layers / experts);
  const double read = missing * shape.record_bytes / rates.full;
  const double compute = rows * chosen * shape.expert_operations / rates.expert_pass;
  const double first = std::min(missing, 1.0) * shape.record_bytes / rates.single;
  return rows * dense / rates.dense_pass + layers * (std::max(read, compute) + first) +
         RowSeconds(shape, rates, rows);
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
  const double rows = plan.pass_rows;
  const auto at = [&](auto choose, double& decode, double& prefill) {
    const Rates rates = Pick(forecast.hit_rate, disk, compute, choose);
    const TokenTime token = DecodeTime(shape, rates);
    decode = 1 / token.total();
    prefill = rows / PassTime(shape, rates, rows, plan.slots);
    return token;
  };
  at([](const Range& range) { return range.low; }, forecast.decode.low, forecast.prefill.low);
  at([](const Range& range) { return range.high; }, forecast.decode.high, forecast.prefill.high);
  const TokenTime typical = at([](const Range& range) { return range.typical; },
                               forecast.decode.typical, forecast.prefill.typical);
  forecast.disk_share = typical.wait / typical.total();
  forecast.read_per_token = shape.config.num_layers() * shape.config.experts_per_token *
                            (1 - forecast.hit_rate.typical) * shape.record_bytes;
  return forecast;
}

}  // namespace slotstream::plan
