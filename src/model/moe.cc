#include "model/moe.h"

#include <algorithm>
#include <cmath>
#include <cstring>

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

// Prepared rows of the inputs of panels of one shape, in an arena.
struct PreparedBuffer {
  PreparedBuffer() = default;
  PreparedBuffer(Arena& arena, kernels::ComputeMode mode, const checkpoint::PanelShape& shape,
                 size_t rows)
      : stride(kernels::PreparedBytes(mode, shape.k, shape.group)),
        data(reinterpret_cast<std::byte*>(arena.Take(rows * stride / sizeof(float)))) {}
  std::byte* row(size_t r) const { return data + r * stride; }
  PreparedRows from(size_t r) const { return {row(r), stride}; }

  size_t stride = 0;
  std::byte* data = nullptr;
};

struct Buffers {
  Buffers(Arena& arena, kernels::ComputeMode mode, const ModelConfig& config,
          const ExpertShape& shape, size_t rows) {
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
    gate = take(batch, config.expert_size);
    up = take(batch, config.expert_size);
    gate_rows = PreparedBuffer(arena, mode, shape.gate, rows);
    gathered_gate = PreparedBuffer(arena, mode, shape.gate, batch);
    one_group = shape.up.group == shape.gate.group;
    up_rows = one_group ? gate_rows : PreparedBuffer(arena, mode, shape.up, rows);
    gathered_up = one_group ? gathered_gate : PreparedBuffer(arena, mode, shape.up, batch);
    inner = PreparedBuffer(arena, mode, shape.down, batch);
  }
  MutableRows probabilities;  // [rows, experts]
  MutableRows results;        // [rows * top_k, H], by place
  MutableRows shared_gate, shared_up, shared_out, shared_weight;
  MutableRows gate, up;                              // of a batch of experts: [batch, expert_size]
  bool one_group;                                    // gate and up take the same prepared rows
  PreparedBuffer gate_rows, up_rows;                 // of the pass
  PreparedBuffer gathered_gate, gathered_up, inner;  // of a batch of experts
};

// One expert of a batch: its rows are [begin, begin + rows) of the batch's.
struct BatchExpert {
  const std::byte* record;
  size_t need;
  size_t begin;
  size_t rows;
};

class ExpertBatch {
 public:
  ExpertBatch(Compute& compute, const ModelConfig& config, const ExpertShape& shape,
              const Routing& routing, const Buffers& buffers)
      : compute_(compute), config_(config), shape_(shape), routing_(routing), buffers_(buffers) {}

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
    const kernels::PanelKernels& panels = compute_.panels();
    // Gate and up of the same panels by the same task: outputs are combined while they are hot.
    ForPanels(shape_.gate, [&](const BatchExpert& expert, uint32_t first, uint32_t last) {
      const MutableRows gate{buffers_.gate.row(expert.begin), buffers_.gate.stride};
      const MutableRows up{buffers_.up.row(expert.begin), buffers_.up.stride};
      panels.product(expert.record, shape_.gate, first, last,
                     In(expert, buffers_.gate_rows, buffers_.gathered_gate), expert.rows, gate);
      panels.product(expert.record + shape_.up_offset(), shape_.up, first, last,
                     In(expert, buffers_.up_rows, buffers_.gathered_up), expert.rows, up);
      const size_t at = size_t{first} * checkpoint::kPanelOutputs;
      const size_t width =
          std::min<size_t>(size_t{last} * checkpoint::kPanelOutputs, config_.expert_size) - at;
      for (size_t r = 0; r < expert.rows; ++r) {
        kernels.silu_mul(gate.row(r) + at, up.row(r) + at, width, gate.row(r) + at);
      }
    });
    compute_.ForRows(rows_, [&](size_t r) {
      panels.prepare(buffers_.gate.row(r), config_.expert_size, shape_.down.group,
                     buffers_.inner.row(r));
    });
    ForPanels(shape_.down, [&](const BatchExpert& expert, uint32_t first, uint32_t last) {
      panels.product(expert.record + shape_.down_offset(), shape_.down, first, last,
                     buffers_.inner.from(expert.begin), expert.rows,
                     {buffers_.results.row(routing_.place(expert.need)), buffers_.results.stride});
    });
    experts_.clear();
    rows_ = 0;
  }

 private:
  // fn(expert, first, last) for all panels of a matrix of this shape of every expert, in parallel.
  template <typename Fn>
  void ForPanels(const checkpoint::PanelShape& shape, const Fn& fn) {
    const size_t most_rows = rows_ == experts_.size() ? 1 : rows_;
    const size_t step =
        compute_.panels()
            .TaskFor(experts_.size() * shape.panels(), most_rows, compute_.threads().threads())
            .panels;
    const size_t tasks = (shape.panels() + step - 1) / step;
    compute_.threads().ParallelFor(experts_.size() * tasks, [&](size_t i) {
      const size_t first = i % tasks * step;
      const size_t last = std::min<size_t>(first + step, shape.panels());
      fn(experts_[i / tasks], static_cast<uint32_t>(first), static_cast<uint32_t>(last));
    });
  }

  // The inputs of an expert: one row where it is, several gathered.
  PreparedRows In(const BatchExpert& expert, const PreparedBuffer& rows,
                  const PreparedBuffer& gathered) const {
    return expert.rows == 1 ? rows.from(routing_.rows(expert.need)[0])
                            : gathered.from(expert.begin);
  }

  void Gather() {
    compute_.threads().ParallelFor(experts_.size(), [&](size_t i) {
      const BatchExpert& expert = experts_[i];
      if (expert.rows == 1) return;
      const std::span<const uint32_t> sources = routing_.rows(expert.need);
      for (size_t r = 0; r < expert.rows; ++r) {
        CopyRow(buffers_.gate_rows, sources[r], buffers_.gathered_gate, expert.begin + r);
        if (!buffers_.one_group) {
          CopyRow(buffers_.up_rows, sources[r], buffers_.gathered_up, expert.begin + r);
        }
      }
    });
  }

  static void CopyRow(const PreparedBuffer& from, size_t source, const PreparedBuffer& to,
                      size_t target) {
    std::memcpy(to.row(target), from.row(source), from.stride);
  }

  Compute& compute_;
  const ModelConfig& config_;
  const ExpertShape& shape_;
  const Routing& routing_;
  const Buffers& buffers_;
  std::vector<BatchExpert> experts_;
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

size_t MoeScratch(const ModelConfig& config, const ExpertShape& shape, kernels::ComputeMode mode,
                  size_t rows) {
  Arena counter;
  Buffers(counter, mode, config, shape, rows);
  return counter.used();
}

Status RunMoe(Compute& compute, const ModelConfig& config, const MoeWeights& weights,
              experts::ExpertStore& store, uint32_t layer, bool admit, ConstRows x, size_t rows,
              Routing& routing, const std::function<void()>& meanwhile, MutableRows y,
              Arena arena) {
  const kernels::KernelTable& kernels = compute.kernels();
  const Buffers buffers(arena, compute.mode(), config, store.shape(), rows);
  const size_t top_k = config.experts_per_token;

  compute.Run(
      x, config.hidden_size, rows,
      {{weights.router, buffers.probabilities}, {weights.shared_weight, buffers.shared_weight}});
  compute.ForRows(
      rows, [&](size_t r) { kernels.softmax(buffers.probabilities.row(r), config.num_experts); });
  routing.Assign(buffers.probabilities, rows, config.num_experts, top_k, config.norm_topk_prob);

  SS_RETURN_IF_ERROR(store.Begin(layer, routing.needs(), static_cast<uint32_t>(rows), admit));
  meanwhile();
  RunSharedExpert(compute, config, weights, x, rows, buffers);

  compute.ForRows(rows, [&](size_t r) {
    compute.panels().prepare(x.row(r), config.hidden_size, store.shape().gate.group,
                             buffers.gate_rows.row(r));
    if (!buffers.one_group) {
      compute.panels().prepare(x.row(r), config.hidden_size, store.shape().up.group,
                               buffers.up_rows.row(r));
    }
  });
  ExpertBatch batch(compute, config, store.shape(), routing, buffers);
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
