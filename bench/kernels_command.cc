#include "bench/kernels_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <list>
#include <optional>

#include "bench/peer.h"
#include "bench/products.h"
#include "bench/subjects.h"

namespace slotstream::bench {
namespace {

constexpr int kRounds = 7;
constexpr size_t kQuickMemoryMib = 32;

enum class Bound { kMemory, kArithmetic };

struct Group {
  std::string name;
  Bound bound;
  std::vector<ProductCase> cases;
};

// The matrices of the published Qwen3.8-Flash-Next: hidden size 2560, 512 experts of 640 of which a
// token takes 10, 4 streams and rank 320 of the hyper-connections, 248,320 words.
Group Decode() {
  return {
      "decode product",
      Bound::kMemory,
      {OneRow("experts gate, up", 640, 2560, 20, true),
       OneRow("experts down", 2560, 640, 10, false),
       OneRow("delta net qkv, z", 16384, 2560, 1, true),
       OneRow("delta net and attention out", 2560, 6144, 1, true),
       OneRow("attention q, k, v", 13312, 2560, 1, true),
       OneRow("hyper-connection down", 320, 10240, 1, true),
       OneRow("hyper-connection up", 10240, 320, 1, true), OneRow("head", 248320, 2560, 1, true)}};
}

Group Prefill(uint32_t rows) {
  return {"prefill product",
          Bound::kArithmetic,
          {ManyRows("delta net z", 6144, 2560, rows),
           ManyRows("delta net and attention out", 2560, 6144, rows),
           ManyRows("shared expert gate", 640, 2560, rows),
           ManyRows("hyper-connection down", 320, 10240, rows),
           ManyRows("hyper-connection up", 10240, 320, rows)}};
}

Group ExpertPrefill(uint32_t experts, uint32_t tokens) {
  return {"expert product",
          Bound::kArithmetic,
          {Routed("gate of all experts", 640, 2560, experts, 10, tokens),
           Routed("down of all experts", 2560, 640, experts, 10, tokens)}};
}

std::vector<Group> Groups(bool quick) {
  if (quick) return {Decode(), Prefill(16), ExpertPrefill(16, 16)};
  return {Decode(), Prefill(512), ExpertPrefill(512, 512)};
}

// Measures one product after the other, each together with its roofs and the peer's, since what a
// shared machine can do changes within a minute.
class KernelRun {
 public:
  KernelRun(const Setup& setup, WeightBuffer& weights, PeerProducts* peer,
            const RoundOptions& rounds, QuietCores& cores)
      : setup_(setup), weights_(weights), peer_(peer), rounds_(rounds), cores_(cores) {}

  Status Measure(const Group& group) {
    for (const ProductCase& product : group.cases) {
      const double bytes =
          static_cast<double>(checkpoint::PanelShape{product.n, product.k, kGroup}.bytes()) *
          static_cast<double>(product.rows.size());
      if (bytes > static_cast<double>(weights_.size())) continue;
      for (const int threads : setup_.threads) {
        Subjects subjects(weights_, pools_);
        std::list<Products> products;
        SS_RETURN_IF_ERROR(AddCase(group, product, threads, subjects, products));
        for (Row& row : subjects.Run(rounds_, cores_)) {
          (row.group == kRoofGroup ? roofs_ : rows_).push_back(std::move(row));
        }
      }
    }
    return {};
  }

  // Each roof once: the median of what it was beside all products.
  std::vector<Row> Rows() const {
    std::vector<Row> rows;
    for (const Row& roof : roofs_) {
      const auto same = [&](const Row& row) {
        return row.name == roof.name && row.isa == roof.isa && row.threads == roof.threads;
      };
      if (std::any_of(rows.begin(), rows.end(), same)) continue;
      Row& row = rows.emplace_back(roof);
      row.rounds = row.counted = 0;
      std::vector<double> values;
      for (const Row& measured : roofs_) {
        if (!same(measured)) continue;
        row.rounds += measured.rounds;
        row.counted += measured.counted;
        if (measured.value) values.push_back(*measured.value);
      }
      row.value = Median(std::move(values));
    }
    rows.insert(rows.end(), rows_.begin(), rows_.end());
    return rows;
  }

 private:
  Status AddCase(const Group& group, const ProductCase& product, int threads, Subjects& subjects,
                 std::list<Products>& products) {
    const bool memory = group.bound == Bound::kMemory;
    const double work = memory ? product.weight_bytes() : product.operations();
    Subject subject;
    subject.row = {.group = group.name, .name = product.name, .mode = {}, .isa = {}};
    subject.row.threads = threads;
    subject.row.rows = product.chosen > 0 ? product.tokens : product.rows[0];
    subject.row.unit = memory ? "GB/s" : "Gop/s";
    subject.work = work;
    const std::string name = fmt::format("{} {} {}", group.name, product.name, threads);

    std::vector<std::pair<std::string, std::string>> peers;
    std::vector<std::pair<Subject, int>> peer_subjects;
    if (peer_ != nullptr) {
      for (const std::string& type : peer_->types()) {
        SS_ASSIGN_OR_RETURN(const std::optional<int> id, peer_->Prepare(type, product, threads));
        if (!id) continue;
        Subject theirs = subject;
        theirs.row.mode = type;
        theirs.row.isa = "llama.cpp";
        theirs.key = fmt::format("{} {}", name, type);
        if (memory) theirs.roof_keys = subjects.AddMemoryRoof(threads);
        peers.emplace_back(type, theirs.key);
        peer_subjects.emplace_back(theirs, *id);
      }
    }
    for (const kernels::KernelTable* table : setup_.tables) {
      for (const kernels::ComputeMode mode : setup_.modes) {
        Subject ours = subject;
        const std::string_view instructions = table->panel(mode).instructions;
        ours.row.mode = kernels::NameOf(mode);
        ours.row.isa = std::string(instructions);
        ours.key = fmt::format("{} {} {}", name, table->name, ours.row.mode);
        ours.peers = peers;
        if (memory) {
          ours.roof_keys = subjects.AddMemoryRoof(threads);
        } else {
          ours.roof_keys =
              subjects.AddPeak(instructions, mode != kernels::ComputeMode::kExact, threads);
          // Two integer products for each weight and activation.
          if (mode == kernels::ComputeMode::kInt15) ours.roof_scale = 0.5;
        }
        Products& run = products.emplace_back(product, *table, mode, weights_, pools_.of(threads));
        subjects.Add(std::move(ours), [&run] { return run.Run(); });
      }
    }
    for (auto& [theirs, id] : peer_subjects) {
      subjects.Add(theirs, [this, id = id] { return peer_->Run(id); });
    }
    return {};
  }

  const Setup& setup_;
  WeightBuffer& weights_;
  PeerProducts* peer_;
  const RoundOptions& rounds_;
  QuietCores& cores_;
  ThreadPools pools_;
  std::vector<Row> roofs_, rows_;
};

}  // namespace

Result<std::vector<Row>> MeasureKernels(const CommonOptions& options) {
  SS_ASSIGN_OR_RETURN(const Setup setup, MakeSetup(options));
  const size_t bytes = (options.quick ? kQuickMemoryMib : options.memory_mib) << 20;
  SS_ASSIGN_OR_RETURN(WeightBuffer weights, WeightBuffer::Allocate(bytes));
  std::optional<PeerProducts> peer;
  if (!options.peer.empty()) {
    SS_ASSIGN_OR_RETURN(peer, PeerProducts::Start(options.peer, bytes));
  }
  RoundOptions rounds{.rounds = options.rounds > 0 ? options.rounds : kRounds};
  if (options.quick) rounds = {.rounds = 1, .min_seconds = 1e-6};
  QuietCores cores(options.quick || options.shared_cores);
  fmt::print(stderr, "one core runs at about {:.2f} GHz\n", cores.reference_ghz());
  KernelRun run(setup, weights, peer ? &*peer : nullptr, rounds, cores);
  for (const Group& group : Groups(options.quick)) SS_RETURN_IF_ERROR(run.Measure(group));
  return run.Rows();
}

}  // namespace slotstream::bench
