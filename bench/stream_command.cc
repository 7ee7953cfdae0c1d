#include "bench/stream_command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>

#include "bench/disk_rate.h"
#include "bench/memory_limit.h"
#include "bench/paced_backend.h"
#include "bench/peer.h"
#include "bench/rounds.h"
#include "bench/stream_run.h"
#include "plan/plan.h"

namespace slotstream::bench {
namespace {

constexpr int kRounds = 5;
// Records in flight, as the engine's sweep has them.
constexpr uint32_t kInFlight = 16;
constexpr size_t kRequestDepth = 64;
constexpr double kDiskSeconds = 0.5, kQuickSeconds = 0.02;
// Of a limited process, for this program's own measurements.
constexpr uint64_t kOwnBytes = 80 << 20;
// Rows that 2,048 tokens need of a table with 16 heads.
constexpr uint32_t kNgramRows = 32'768, kQuickNgramRows = 256;
constexpr uint32_t kNgramDepths[] = {64, 256};

// Figures by name, one value a round.
class Figures {
 public:
  void Add(const std::string& name, double value) { values_[name].push_back(value); }
  std::optional<double> Of(const std::string& name) const {
    const auto found = values_.find(name);
    return found == values_.end() ? std::nullopt : Median(found->second);
  }
  int rounds(const std::string& name) const {
    const auto found = values_.find(name);
    return found == values_.end() ? 0 : static_cast<int>(found->second.size());
  }

 private:
  std::map<std::string, std::vector<double>> values_;
};

void DropPageCache(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  close(file);
}

// What is compared with what.
constexpr std::pair<const char*, model::LookAheadMode> kWays[] = {
    {"", model::LookAheadMode::kAuto},
    {", look-ahead", model::LookAheadMode::kOn},
    {", no look-ahead", model::LookAheadMode::kOff},
};

class StreamComparison {
 public:
  StreamComparison(const StreamOptions& options, const Setup& setup)
      : options_(options),
        threads_(*std::max_element(setup.threads.begin(), setup.threads.end())),
        table_(setup.tables.front()),
        mode_(options.common.modes.empty() ? kernels::kDefaultComputeMode : setup.modes.front()) {}

  int rounds() const {
    if (options_.common.quick) return 1;
    return options_.common.rounds > 0 ? options_.common.rounds : kRounds;
  }
  Status Load();
  Status Round();
  std::vector<Row> Rows() const;

 private:
  const checkpoint::ExpertFormat& experts() const { return loaded_->checkpoint().experts(); }
  bool has_peer() const { return !options_.common.peer.empty() && !options_.peer_model.empty(); }

  Result<double> DiskRate() {
    SS_ASSIGN_OR_RETURN(auto backend, MakePacedBackend(kRequestDepth, options_.disk_gb_s));
    return MeasureRecordReads(experts(), std::move(backend), kInFlight,
                              options_.common.quick ? kQuickSeconds : kDiskSeconds);
  }
  void AddCost(const std::string& name, const StreamCost& cost, double disk);
  Status MeasureNgrams();
  Status MeasurePeer();
  Row MakeRow(const char* group, std::string name, const std::string& figure, const char* unit,
              double scale = 1) const;
  void AddRows(const char* group, const std::string& name, std::vector<Row>& rows) const;

  const StreamOptions& options_;
  int threads_;
  const kernels::KernelTable* table_;
  kernels::ComputeMode mode_;
  std::unique_ptr<MemoryLimit> limit_, peer_limit_;
  std::unique_ptr<engine::LoadedModel> loaded_;
  std::unique_ptr<StreamRun> run_;
  Figures figures_;
};

Status StreamComparison::Load() {
  if (options_.limit_mib > 0) {
    const uint64_t bytes = uint64_t{options_.limit_mib} << 20;
    SS_ASSIGN_OR_RETURN(limit_, MemoryLimit::Create("ours", bytes));
    SS_ASSIGN_OR_RETURN(peer_limit_, MemoryLimit::Create("peer", bytes));
    SS_RETURN_IF_ERROR(limit_->Enter());
  }
  engine::LoadOptions load;
  load.directory = options_.directory;
  load.kernels = std::string(table_->name);
  load.wishes.compute = mode_;
  load.wishes.threads = threads_;
  load.make_backend = [this](size_t depth) { return MakePacedBackend(depth, options_.disk_gb_s); };
  const size_t pass = options_.pass > 0 ? options_.pass : options_.prompt;
  if (pass > 0) load.wishes.pass_rows = static_cast<uint32_t>(pass);
  const size_t decoded =
      options_.warm + std::size(kWays) * static_cast<size_t>(rounds()) * options_.decode;
  load.wishes.max_context = static_cast<uint32_t>(std::max(options_.prompt, decoded) + 1);
  if (options_.limit_mib > 0) {
    load.wishes.memory_bytes = (uint64_t{options_.limit_mib} << 20) - kOwnBytes;
  }
  if (options_.slots_per_layer > 0) {
    SS_ASSIGN_OR_RETURN(const auto checkpoint, checkpoint::Checkpoint::Open(options_.directory));
    load.wishes.slots = options_.slots_per_layer * checkpoint->config().num_layers();
  }
  std::vector<std::string> notes;
  SS_ASSIGN_OR_RETURN(loaded_, engine::LoadedModel::Load(load, {}, notes));
  fmt::print(stderr, "{}, {} records staged\n", loaded_->plan().Summary(),
             loaded_->plan().sweep_records);
  run_ = std::make_unique<StreamRun>(*loaded_);
  SS_RETURN_IF_ERROR(run_->Decode(options_.warm, model::LookAheadMode::kAuto));
  return {};
}

void StreamComparison::AddCost(const std::string& name, const StreamCost& cost, double disk) {
  const auto tokens = static_cast<double>(cost.tokens);
  const double needed = cost.needed_bytes(experts().shape().record_bytes());
  figures_.Add(name, cost.speed());
  // What the disk allows at the rate that it had just before and after.
  figures_.Add(name + " allowed", needed > 0 ? disk / needed * tokens : 0);
  figures_.Add(name + " of allowed", needed / disk / cost.seconds);
  figures_.Add(name + " busy", static_cast<double>(cost.bytes) / cost.seconds / disk);
  figures_.Add(name + " bytes", needed / tokens);
  figures_.Add(name + " hit rate", cost.hit_rate());
  figures_.Add(name + " hidden", cost.hidden());
  const auto misses = static_cast<double>(std::max<uint64_t>(1, cost.misses));
  figures_.Add(name + " ahead", static_cast<double>(cost.read_ahead) / misses);
  figures_.Add(name + " wasted", static_cast<double>(cost.wasted) / misses);
  if (cost.guesses == 0) return;
  const auto right = static_cast<double>(cost.right);
  figures_.Add(name + " recall", right / misses);
  figures_.Add(name + " precision", right / static_cast<double>(cost.guesses));
}

Status StreamComparison::Round() {
  const auto measure = [&](const std::string& name, const auto& work) -> Status {
    SS_ASSIGN_OR_RETURN(const double before, DiskRate());
    SS_ASSIGN_OR_RETURN(const StreamCost cost, work());
    SS_ASSIGN_OR_RETURN(const double after, DiskRate());
    figures_.Add("disk", before);
    figures_.Add("disk", after);
    AddCost(name, cost, (before + after) / 2);
    return {};
  };
  for (const auto& [suffix, look_ahead] : kWays) {
    if (options_.decode > 0) {
      SS_RETURN_IF_ERROR(measure(fmt::format("decode{}", suffix),
                                 [&] { return run_->Decode(options_.decode, look_ahead); }));
    }
    if (options_.prompt > 0) {
      SS_RETURN_IF_ERROR(measure(fmt::format("prefill{}", suffix),
                                 [&] { return run_->Prefill(options_.prompt, look_ahead); }));
    }
  }
  SS_RETURN_IF_ERROR(MeasureNgrams());
  return has_peer() ? MeasurePeer() : Status{};
}

Status StreamComparison::MeasureNgrams() {
  const checkpoint::Checkpoint& checkpoint = loaded_->checkpoint();
  if (checkpoint.config().ple_layers.empty()) return {};
  const uint32_t rows = options_.common.quick ? kQuickNgramRows : kNgramRows;
  double best = 0;
  for (const uint32_t depth : kNgramDepths) {
    SS_ASSIGN_OR_RETURN(const double rate, MeasureRowReads(checkpoint.ngrams(0), depth, rows));
    best = std::max(best, rate);
  }
  SS_ASSIGN_OR_RETURN(const double ours, MeasureNgramStore(checkpoint.ngrams(0), rows));
  figures_.Add("rows of the disk", best);
  figures_.Add("rows", ours);
  return {};
}

Status StreamComparison::MeasurePeer() {
  DropPageCache(options_.peer_model);
  if (peer_limit_) SS_RETURN_IF_ERROR(peer_limit_->Enter());
  // Its weights as they are in the file: repacked ones would be anonymous memory beyond the limit.
  const Result<PeerSpeed> speed = RunLlamaBench(
      options_.common.peer, options_.peer_model, threads_, std::max<size_t>(options_.prompt, 1),
      std::max<size_t>(options_.decode, 1), {"--load-mode", "mmap", "--repack", "0"});
  if (limit_) SS_RETURN_IF_ERROR(limit_->Enter());
  if (!speed) return std::unexpected(speed.error());
  figures_.Add("peer decode", speed->decode);
  figures_.Add("peer prefill", speed->prefill);
  return {};
}

Row StreamComparison::MakeRow(const char* group, std::string name, const std::string& figure,
                              const char* unit, double scale) const {
  Row row;
  row.group = group;
  row.name = std::move(name);
  row.mode = kernels::NameOf(mode_);
  row.isa = std::string(table_->panel(mode_).instructions);
  row.threads = threads_;
  if (const auto value = figures_.Of(figure)) row.value = *value * scale;
  row.unit = unit;
  row.rounds = row.counted = figures_.rounds(figure);
  return row;
}

void StreamComparison::AddRows(const char* group, const std::string& name,
                               std::vector<Row>& rows) const {
  for (const auto& [suffix, look_ahead] : kWays) {
    const std::string variant = name + suffix;
    if (figures_.rounds(variant) == 0) continue;
    Row speed = MakeRow(group, variant, variant, "tokens/s");
    speed.roof = figures_.Of(variant + " allowed");
    if (const auto peer = figures_.Of("peer " + name); peer && variant == name) {
      speed.peer = peer;
      speed.peer_name = std::filesystem::path(options_.peer_model).stem();
      speed.peer_types = {{speed.peer_name, *peer}};
    }
    rows.push_back(speed);
    const auto detail = [&](const char* what, const char* figure, const char* unit,
                            double scale = 1) {
      rows.push_back(MakeRow(group, fmt::format("  {}", what), variant + figure, unit, scale));
    };
    detail("of what the disk allows", " of allowed", "share");
    detail("of the disk's rate", " busy", "share");
    detail("read per token", " bytes", "MB", 1e-6);
    detail("found in the pool", " hit rate", "share");
    detail("of read time hidden", " hidden", "share");
    detail("of misses asked for early", " ahead", "share");
    detail("read in vain, per miss", " wasted", "share");
    if (figures_.rounds(variant + " recall") == 0) continue;
    detail("of misses guessed", " recall", "share");
    detail("of all guesses right", " precision", "share");
  }
}

std::vector<Row> StreamComparison::Rows() const {
  std::vector<Row> rows;
  const auto record = static_cast<double>(experts().shape().record_bytes());
  rows.push_back(
      MakeRow("disk", fmt::format("records of {:.2f} MB", record * 1e-6), "disk", "GB/s", 1e-9));
  AddRows("stream decode", "decode", rows);
  AddRows("stream prefill", "prefill", rows);
  if (figures_.rounds("rows") > 0) {
    Row ngram = MakeRow("n-gram rows", "2,048 tokens' unrelated rows", "rows", "rows/s");
    ngram.roof = figures_.Of("rows of the disk");
    rows.push_back(ngram);
  }
  return rows;
}

}  // namespace

Result<std::vector<Row>> MeasureStream(const StreamOptions& options) {
  SS_ASSIGN_OR_RETURN(const Setup setup, MakeSetup(options.common));
  if (options.decode == 0 && options.prompt == 0) {
    return Fail(ErrorCode::kInvalidArgument, "--decode or --prompt must be at least 1");
  }
  if (!options.peer_model.empty() && options.common.peer.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                "--peer-model needs --peer, the folder of its program");
  }
  if (options.limit_mib > 0 && (uint64_t{options.limit_mib} << 20) <= kOwnBytes) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("--limit-mib {} is too little: this program alone takes {} MiB",
                            options.limit_mib, kOwnBytes >> 20));
  }
  StreamComparison comparison(options, setup);
  SS_RETURN_IF_ERROR(comparison.Load());
  for (int round = 0; round < comparison.rounds(); ++round) {
    fmt::print(stderr, "round {} of {}\n", round + 1, comparison.rounds());
    SS_RETURN_IF_ERROR(comparison.Round());
  }
  return comparison.Rows();
}

}  // namespace slotstream::bench
