#include "bench/decode_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <list>

#include "base/clock.h"
#include "bench/pool_visits.h"
#include "bench/products.h"

namespace slotstream::bench {
namespace {

using checkpoint::LayerKind;
using checkpoint::Storage;

constexpr const char* kGroupName = "decode part";

// One step of the delta rule of one layer, on states that no cache holds.
class DeltaRuleStep {
 public:
  DeltaRuleStep(const checkpoint::ModelConfig& config, const kernels::KernelTable& kernels,
                ThreadPool& threads, size_t memory)
      : kernels_(kernels),
        threads_(threads),
        key_dim_(config.linear_key_dim),
        value_dim_(config.linear_value_dim),
        heads_(config.linear_value_heads),
        row_(std::max(key_dim_, value_dim_), 0.01f),
        output_(heads_ * value_dim_) {
    const size_t state = heads_ * key_dim_ * value_dim_;
    states_.resize(std::max<size_t>(1, memory / sizeof(float) / state) * state);
  }

  double Run() {
    const size_t state = key_dim_ * value_dim_;
    if (next_ + heads_ * state > states_.size()) next_ = 0;
    float* first = states_.data() + next_;
    next_ += heads_ * state;
    const float decay = 0.9f, beta = 0.5f;
    const uint64_t start = Clock::Steady().NowNanos();
    threads_.ParallelFor(heads_, [&](size_t h) {
      kernels_.delta_rule({.state = first + h * state,
                           .key_dim = key_dim_,
                           .value_dim = value_dim_,
                           .tokens = 1,
                           .query = {row_.data(), key_dim_},
                           .key = {row_.data(), key_dim_},
                           .value = {row_.data(), value_dim_},
                           .decay = {&decay, 1},
                           .beta = {&beta, 1},
                           .output = {output_.data() + h * value_dim_, value_dim_}});
    });
    return static_cast<double>(Clock::Steady().NowNanos() - start) * 1e-9;
  }

 private:
  const kernels::KernelTable& kernels_;
  ThreadPool& threads_;
  size_t key_dim_, value_dim_, heads_;
  std::vector<float> row_, output_, states_;
  size_t next_ = 0;
};

struct Part {
  size_t token;  // index of the DecodedToken
  std::string name;
  std::string key;
  double times;  // per token
};

// Owns what the parts run on.
class Parts {
 public:
  Parts(const checkpoint::ModelConfig& config, PoolVisits& visits, WeightBuffer& weights,
        ThreadPools& pools)
      : config_(config), visits_(visits), weights_(weights), pools_(pools) {}

  void Add(size_t index, const DecodedToken& token, const plan::TokenCost& cost) {
    ThreadPool& threads = pools_.of(token.threads);
    for (const plan::MatrixRole& role : cost.roles) {
      const std::string name =
          fmt::format("{} [{}, {}] x {}", role.name, role.n, role.k, role.count);
      if (role.storage == Storage::kBf16) {
        Bf16Product& product = bf16_.emplace_back(role.n, role.k, *token.table, weights_, threads);
        AddPart(index, token, name, role.count, [&product] { return product.Run(); });
        continue;
      }
      // The experts of a layer are one loop, as the model runs them.
      const bool routed = role.count > config_.num_layers() && role.name.starts_with("routed");
      const uint32_t together = routed ? config_.experts_per_token : 1;
      ProductCase& product_case = cases_.emplace_back(
          OneRow(role.name, role.n, role.k, together, role.shared || together == 1));
      product_case.group = role.group;
      Products& product =
          products_.emplace_back(product_case, *token.table, token.mode, weights_, threads);
      AddPart(index, token, name, static_cast<double>(role.count) / together,
              [&product] { return product.Run(); });
    }
    const auto linear =
        std::count(config_.layers.begin(), config_.layers.end(), LayerKind::kLinearAttention);
    if (linear > 0) {
      DeltaRuleStep& step =
          steps_.emplace_back(config_, *token.table, threads, weights_.size() / 8);
      AddPart(index, token, fmt::format("delta rule x {}", linear), static_cast<double>(linear),
              [&step] { return step.Run(); });
    }
    AddPart(index, token, "expert pool, all experts there", 1,
            [this] { return visits_.Run().value_or(0); });
  }

  const std::vector<Measurement>& measurements() const { return measurements_; }
  const std::vector<Part>& parts() const { return parts_; }

 private:
  void AddPart(size_t index, const DecodedToken& token, const std::string& name, double times,
               std::function<double()> seconds) {
    const std::string key = fmt::format("part {} {}", index, name);
    parts_.push_back({index, name, key, times});
    measurements_.push_back({key, token.threads, std::move(seconds)});
  }

  const checkpoint::ModelConfig& config_;
  PoolVisits& visits_;
  WeightBuffer& weights_;
  ThreadPools& pools_;
  std::list<ProductCase> cases_;
  std::list<Products> products_;
  std::list<Bf16Product> bf16_;
  std::list<DeltaRuleStep> steps_;
  std::vector<Measurement> measurements_;
  std::vector<Part> parts_;
};

Row RowOf(const DecodedToken& token, const std::string& name, std::optional<double> milliseconds) {
  return {.group = kGroupName,
          .name = name,
          .mode = std::string(kernels::NameOf(token.mode)),
          .isa = std::string(token.table->panel(token.mode).instructions),
          .threads = token.threads,
          .rows = 1,
          .value = milliseconds,
          .unit = "ms/token"};
}

}  // namespace

Result<std::vector<Row>> MeasureDecodeParts(const checkpoint::Checkpoint& checkpoint,
                                            const plan::TokenCost& cost,
                                            const std::vector<DecodedToken>& tokens,
                                            WeightBuffer& weights, ThreadPools& pools,
                                            const RoundOptions& options, QuietCores& cores) {
  const checkpoint::ModelConfig& config = checkpoint.config();
  for (const plan::MatrixRole& role : cost.roles) {
    const size_t bytes = role.storage == Storage::kBf16
                             ? size_t{role.n} * role.k * sizeof(uint16_t)
                             : checkpoint::PanelShape{role.n, role.k, role.group}.bytes();
    if (bytes * config.experts_per_token <= weights.size() || bytes <= weights.size()) continue;
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} has {} bytes, more than --memory-mib {} holds; raise it", role.name,
                            bytes, weights.size() >> 20));
  }
  SS_ASSIGN_OR_RETURN(const std::unique_ptr<PoolVisits> visits, PoolVisits::Create(checkpoint));
  Parts parts(config, *visits, weights, pools);
  for (size_t i = 0; i < tokens.size(); ++i) parts.Add(i, tokens[i], cost);
  const Timings timings = RunInterleaved(parts.measurements(), options, cores);

  std::vector<Row> rows;
  for (size_t i = 0; i < tokens.size(); ++i) {
    std::optional<double> sum = 0.0;
    for (const Part& part : parts.parts()) {
      if (part.token != i) continue;
      const Timing& timing = timings.at(part.key);
      std::optional<double> value;
      if (timing.median) value = *timing.median * part.times * 1e3;
      sum = sum && value ? std::optional(*sum + *value) : std::nullopt;
      Row& row = rows.emplace_back(RowOf(tokens[i], part.name, value));
      row.rounds = timing.rounds;
      row.counted = timing.counted;
    }
    rows.push_back(RowOf(tokens[i], "all parts", sum));
    rows.push_back(RowOf(tokens[i], "the rest of the token",
                         sum ? std::optional(tokens[i].milliseconds - *sum) : std::nullopt));
    rows.push_back(RowOf(tokens[i], "the token", tokens[i].milliseconds));
  }
  return rows;
}

}  // namespace slotstream::bench
