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

// Owns what the measurements run on.
class KernelRun {
 public:
  KernelRun(const Setup& setup, WeightBuffer& weights, PeerProducts* peer)
      : setup_(setup), weights_(weights), peer_(peer), subjects_(weights, pools_) {}

  Status Add(const Group& group) {
    for (const ProductCase& given : group.cases) {
      const ProductCase& product = cases_.emplace_back(given);
      const double bytes =
          static_cast<double>(checkpoint::PanelShape{product.n, product.k, kGroup}.bytes()) *
          static_cast<double>(product.rows.size());
      if (bytes > static_cast<double>(weights_.size())) continue;
      for (const int threads : setup_.threads) {
        SS_RETURN_IF_ERROR(AddCase(group, product, threads));
      }
    }
    return {};
  }

  std::vector<Row> Run(const RoundOptions& options, QuietCores& cores) {
    return subjects_.Run(options, cores);
  }

 private:
  Status AddCase(const Group& group, const ProductCase& product, int threads) {
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
        if (memory) theirs.roof_keys = subjects_.AddMemoryRoof(threads);
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
          ours.roof_keys = subjects_.AddMemoryRoof(threads);
        } else {
          ours.roof_keys =
              subjects_.AddPeak(instructions, mode != kernels::ComputeMode::kExact, threads);
          // Two integer products for each weight and activation.
          if (mode == kernels::ComputeMode::kInt15) ours.roof_scale = 0.5;
        }
        Products& products =
            products_.emplace_back(product, *table, mode, weights_, pools_.of(threads));
        subjects_.Add(std::move(ours), [&products] { return products.Run(); });
      }
    }
    for (auto& [theirs, id] : peer_subjects) {
      subjects_.Add(theirs, [this, id = id] { return peer_->Run(id); });
    }
    return {};
  }

  const Setup& setup_;
  WeightBuffer& weights_;
  PeerProducts* peer_;
  ThreadPools pools_;
  Subjects subjects_;
  std::list<ProductCase> cases_;
  std::list<Products> products_;
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
  KernelRun run(setup, weights, peer ? &*peer : nullptr);
  for (const Group& group : Groups(options.quick)) SS_RETURN_IF_ERROR(run.Add(group));
  RoundOptions rounds{.rounds = options.rounds > 0 ? options.rounds : kRounds};
  if (options.quick) rounds = {.rounds = 1, .min_seconds = 1e-6};
  QuietCores cores(options.quick || options.shared_cores);
  fmt::print(stderr, "one core runs at about {:.2f} GHz\n", cores.reference_ghz());
  return run.Run(rounds, cores);
}

}  // namespace slotstream::bench
