#include "model/moe.h"

#include <algorithm>
#include <cmath>

#include "kernels/scalar_math.h"

namespace slotstream::model {
namespace {

using checkpoint::ExpertShape;
using checkpoint::ModelConfig;

// Rows that one batch of ready experts may hold together: bounds the scratch of a pass whose
// experts are all ready at once. An expert alone may have all rows of the pass.
constexpr size_t kBatchRows = 256;

size_t BatchRows(size_t rows, size_t top_k) {
  return std::max(rows, std::min(kBatchRows, rows * top_k));
}

size_t Groups(const checkpoint::PanelShape& shape) { return shape.k / shape.group; }

struct Buffers {
  Buffers(Arena& arena, const ModelConfig& config, const ExpertShape& shape, size_t rows) {
    auto take = [&](size_t count, size_t width) {
      return MutableRows{arena.Take(count * width), width};
    };
    const size_t batch = BatchRows(rows, config.experts_per_token);
    probabilities = take(rows, config.num_experts);
    results = take(rows * config.experts_per_token, config.hidden_size);
    shared_gate = take(rows, config.shared_expert_size);
    shared_up = take(rows, config.shared_expert_size);
    shared_out = take(rows, config.hidden_size);
    shared_weight = take(rows, 1);
    gathered = take(batch, config.hidden_size);
    gate_sums = take(batch, Groups(shape.gate));
    up_sums = shape.up.group == shape.gate.group ? gate_sums : take(batch, Groups(shape.up));
    gate = take(batch, config.expert_size);
    up = take(batch, config.expert_size);
    inner_sums = take(batch, Groups(shape.down));
  }
  MutableRows probabilities;  // [rows, experts]
  MutableRows results;        // [rows * top_k, H], by place
  MutableRows shared_gate, shared_up, shared_out, shared_weight;
  // Of a batch of experts, their rows one after another.
  MutableRows gathered, gate_sums, up_sums;  // inputs and their group sums
  MutableRows gate, up, inner_sums;          // [batch, expert_size]
};

// One expert of a batch: its rows lie at [begin, begin + rows) of the batch's buffers.
struct BatchExpert {
  const std::byte* record;
  size_t need;
  size_t begin;
  size_t rows;
};

class ExpertBatch {
 public:
  ExpertBatch(Compute& compute, const ModelConfig& config, const ExpertShape& shape,
              const Routing& routing, ConstRows x, const Buffers& buffers)
      : compute_(compute),
        config_(config),
        shape_(shape),
        routing_(routing),
        x_(x),
        buffers_(buffers) {}

  bool empty() const { return experts_.empty(); }
  bool Fits(size_t rows, size_t limit) const { return rows_ + rows <= limit; }
  void Add(const experts::ReadyExpert& ready) {
    const size_t rows = routing_.rows(ready.need).size();
    experts_.push_back({ready.record, ready.need, rows_, rows});
    rows_ += rows;
  }

  // Computes the batch into results and empties it.
  void Run() {
    Gather();
    const kernels::KernelTable& kernels = compute_.kernels();
    const size_t inner_panels = shape_.gate.panels();
    const size_t out_panels = shape_.down.panels();
    // Gate and up of the same panel by the same task: its outputs are combined while they are hot.
    compute_.threads().ParallelFor(experts_.size() * inner_panels, [&](size_t task) {
      const BatchExpert& expert = experts_[task / inner_panels];
      const auto panel = static_cast<uint32_t>(task % inner_panels);
      const ConstRows in = From(buffers_.gathered, expert);
      const MutableRows gate{buffers_.gate.row(expert.begin), buffers_.gate.stride};
      const MutableRows up{buffers_.up.row(expert.begin), buffers_.up.stride};
      kernels.panel_product(expert.record, shape_.gate, panel, panel + 1, in,
                            From(buffers_.gate_sums, expert), expert.rows, gate);
      kernels.panel_product(expert.record + shape_.up_offset(), shape_.up, panel, panel + 1, in,
                            From(buffers_.up_sums, expert), expert.rows, up);
      const size_t at = size_t{panel} * checkpoint::kPanelOutputs;
      const size_t width = std::min<size_t>(checkpoint::kPanelOutputs, config_.expert_size - at);
      for (size_t r = 0; r < expert.rows; ++r) {
        kernels.silu_mul(gate.row(r) + at, up.row(r) + at, width, gate.row(r) + at);
      }
    });
    compute_.ForRows(rows_, [&](size_t r) {
      kernels.group_sums(buffers_.gate.row(r), config_.expert_size, shape_.down.group,
                         buffers_.inner_sums.row(r));
    });
    compute_.threads().ParallelFor(experts_.size() * out_panels, [&](size_t task) {
      const BatchExpert& expert = experts_[task / out_panels];
      const auto panel = static_cast<uint32_t>(task % out_panels);
      kernels.panel_product(
          expert.record + shape_.down_offset(), shape_.down, panel, panel + 1,
          From(buffers_.gate, expert), From(buffers_.inner_sums, expert), expert.rows,
          {buffers_.results.row(routing_.place(expert.need)), buffers_.results.stride});
    });
    experts_.clear();
    rows_ = 0;
  }

 private:
  static ConstRows From(const MutableRows& rows, const BatchExpert& expert) {
    return {rows.row(expert.begin), rows.stride};
  }

  void Gather() {
    sources_.clear();
    for (const BatchExpert& expert : experts_) {
      const std::span<const uint32_t> rows = routing_.rows(expert.need);
      sources_.insert(sources_.end(), rows.begin(), rows.end());
    }
    compute_.ForRows(rows_, [&](size_t r) {
      std::copy_n(x_.row(sources_[r]), config_.hidden_size, buffers_.gathered.row(r));
      const float* row = buffers_.gathered.row(r);
      const kernels::KernelTable& kernels = compute_.kernels();
      kernels.group_sums(row, config_.hidden_size, shape_.gate.group, buffers_.gate_sums.row(r));
      if (buffers_.up_sums.data != buffers_.gate_sums.data) {
        kernels.group_sums(row, config_.hidden_size, shape_.up.group, buffers_.up_sums.row(r));
      }
    });
  }

  Compute& compute_;
  const ModelConfig& config_;
  const ExpertShape& shape_;
  const Routing& routing_;
  ConstRows x_;
  const Buffers& buffers_;
  std::vector<BatchExpert> experts_;
  std::vector<uint32_t> sources_;
  size_t rows_ = 0;
};

void RunSharedExpert(Compute& compute, const ModelConfig& config, const MoeWeights& weights,
                     ConstRows x, size_t rows, const Buffers& buffers) {
  compute.Run(x, config.hidden_size, rows,
              {{weights.shared_gate, buffers.shared_gate}, {weights.shared_up, buffers.shared_up}});
  compute.ForRows(rows, [&](size_t r) {
    compute.kernels().silu_mul(buffers.shared_gate.row(r), buffers.shared_up.row(r),
                               config.shared_expert_size, buffers.shared_gate.row(r));
  });
  compute.Run(buffers.shared_gate, config.shared_expert_size, rows,
              {{weights.shared_down, buffers.shared_out}});
}

}  // namespace

size_t MoeScratch(const ModelConfig& config, const ExpertShape& shape, size_t rows) {
  Arena counter;
  Buffers(counter, config, shape, rows);
  return counter.used();
}

Status RunMoe(Compute& compute, const ModelConfig& config, const MoeWeights& weights,
              experts::ExpertStore& store, uint32_t layer, bool admit, ConstRows x, size_t rows,
              Routing& routing, MutableRows y, Arena arena) {
  const kernels::KernelTable& kernels = compute.kernels();
  const Buffers buffers(arena, config, store.shape(), rows);
  const size_t top_k = config.experts_per_token;

  compute.Run(
      x, config.hidden_size, rows,
      {{weights.router, buffers.probabilities}, {weights.shared_weight, buffers.shared_weight}});
  compute.ForRows(
      rows, [&](size_t r) { kernels.softmax(buffers.probabilities.row(r), config.num_experts); });
  routing.Assign(buffers.probabilities, rows, config.num_experts, top_k, config.norm_topk_prob);

  SS_RETURN_IF_ERROR(store.Begin(layer, routing.needs(), static_cast<uint32_t>(rows), admit));
  // While the first reads are on their way.
  RunSharedExpert(compute, config, weights, x, rows, buffers);

  ExpertBatch batch(compute, config, store.shape(), routing, x, buffers);
  const size_t limit = BatchRows(rows, top_k);
  std::vector<experts::ReadyExpert> ready;
  for (;;) {
    SS_RETURN_IF_ERROR(store.Next(ready));
    if (ready.empty()) break;
    for (const experts::ReadyExpert& expert : ready) {
      if (!batch.Fits(routing.rows(expert.need).size(), limit)) batch.Run();
      batch.Add(expert);
    }
    batch.Run();
  }

  compute.ForRows(rows, [&](size_t r) {
    kernels.scale(routing.weight(r, 0), buffers.results.row(routing.place(r, 0)),
                  config.hidden_size, y.row(r));
    for (size_t rank = 1; rank < top_k; ++rank) {
      kernels.axpy(routing.weight(r, rank), buffers.results.row(routing.place(r, rank)),
                   config.hidden_size, y.row(r));
    }
    kernels.axpy(kernels::Sigmoid(buffers.shared_weight.row(r)[0]), buffers.shared_out.row(r),
                 config.hidden_size, y.row(r));
  });
  return {};
}

}  // namespace slotstream::model
