#include "bench/model_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <tuple>

#include "base/clock.h"
#include "bench/busy_neighbour.h"
#include "bench/decode_parts.h"
#include "bench/model_speed.h"
#include "bench/peer.h"
#include "bench/roofs.h"
#include "bench/subjects.h"
#include "plan/model_cost.h"

namespace slotstream::bench {
namespace {

// A round loads every configuration anew, so they are few.
constexpr int kRounds = 3;
constexpr size_t kQuickMemoryMib = 64;
constexpr RoundOptions kPartRounds = {.rounds = 5, .min_seconds = 0.02};
constexpr RoundOptions kQuickPartRounds = {.rounds = 1, .min_seconds = 1e-6};
// Of one reading of a roof, within a round.
constexpr int kRoofReadings = 5;

// Samples of one figure over the rounds.
struct Samples {
  std::vector<double> values;
  int rounds = 0;

  void Add(const std::optional<double>& value) {
    ++rounds;
    if (value) values.push_back(*value);
  }
  std::optional<double> median() const { return Median(values); }
};

std::optional<double> Inverse(const std::optional<double>& seconds, double count) {
  return seconds ? std::optional(count / *seconds) : std::nullopt;
}

struct OurSamples {
  const kernels::KernelTable* table;
  kernels::ComputeMode mode;
  int threads;
  Samples prefill, decode, disturbed;  // tokens a second
};
struct PeerSamples {
  int threads;
  Samples prefill, decode, disturbed;
};
// What the machine can do with so many threads.
struct RoofSamples {
  std::map<int, Samples> memory;         // bytes a second, by streams
  std::map<std::string, Samples> peaks;  // operations a second, by mode and kernels

  std::optional<double> best_memory() const {
    std::optional<double> best;
    for (const auto& [streams, samples] : memory) best = std::max(best, samples.median());
    return best;
  }
};

class ModelComparison {
 public:
  ModelComparison(const ModelRunOptions& options, const Setup& setup, WeightBuffer& weights,
                  QuietCores& cores)
      : options_(options), setup_(setup), weights_(weights), cores_(cores) {
    most_threads_ = *std::max_element(setup.threads.begin(), setup.threads.end());
    for (const int threads : setup.threads) {
      for (const kernels::KernelTable* table : setup.tables) {
        for (const kernels::ComputeMode mode : setup.modes) {
          ours_.push_back({table, mode, threads, {}, {}, {}});
        }
      }
      if (has_peer()) peers_.push_back({threads, {}, {}, {}});
    }
  }

  Status Round() {
    for (const int threads : setup_.threads) MeasureRoofs(threads);
    for (OurSamples& ours : ours_) SS_RETURN_IF_ERROR(MeasureOurs(ours));
    for (PeerSamples& peer : peers_) SS_RETURN_IF_ERROR(MeasurePeer(peer));
    return {};
  }

  std::vector<Row> Rows(const plan::TokenCost& cost) const;
  std::vector<DecodedToken> Tokens() const;
  ThreadPools& pools() { return pools_; }

 private:
  bool has_peer() const { return !options_.common.peer.empty() && !options_.peer_model.empty(); }
  bool disturb(int threads) const { return threads == most_threads_ && threads > 1; }

  static std::string PeakKey(const kernels::KernelTable& table, kernels::ComputeMode mode) {
    return fmt::format("{} {}", table.name, kernels::NameOf(mode));
  }

  void MeasureRoofs(int threads) {
    ThreadPool& pool = pools_.of(threads);
    RoofSamples& roofs = roofs_[threads];
    const size_t bytes = weights_.size() / 4;
    for (int i = 0; i < kRoofReadings; ++i) {
      for (const int streams : kReadStreams) {
        QuietWindow window(cores_, threads);
        const double seconds = ReadMemory(weights_, bytes, streams, pool, roof_position_);
        roofs.memory[streams].Add(
            window.Counts() ? std::optional(static_cast<double>(bytes) / seconds) : std::nullopt);
      }
    }
    for (const kernels::KernelTable* table : setup_.tables) {
      for (const kernels::ComputeMode mode : setup_.modes) {
        const Peak* peak =
            FindPeak(table->panel(mode).instructions, mode != kernels::ComputeMode::kExact);
        if (peak == nullptr) continue;
        constexpr uint64_t kLoops = 1'000'000;
        QuietWindow window(cores_, threads);
        const double seconds = RunPeak(*peak, kLoops, pool);
        const double terms = mode == kernels::ComputeMode::kInt15 ? 2 : 1;
        roofs.peaks[PeakKey(*table, mode)].Add(
            window.Counts() ? std::optional(peak->operations * kLoops * threads / seconds / terms)
                            : std::nullopt);
      }
    }
  }

  Status MeasureOurs(OurSamples& ours) {
    SS_ASSIGN_OR_RETURN(const ModelSpeed speed, MeasureSpeed({.directory = options_.directory,
                                                              .table = ours.table,
                                                              .mode = ours.mode,
                                                              .threads = ours.threads,
                                                              .prompt = options_.prompt,
                                                              .decode = options_.decode,
                                                              .neighbour = disturb(ours.threads)},
                                                             cores_));
    ours.prefill.Add(Inverse(speed.prefill, static_cast<double>(options_.prompt)));
    ours.decode.Add(Inverse(speed.decode, 1));
    if (disturb(ours.threads)) ours.disturbed.Add(Inverse(speed.disturbed, 1));
    return {};
  }

  Status MeasurePeer(PeerSamples& peer) {
    const auto run = [&] {
      return RunLlamaBench(options_.common.peer, options_.peer_model, peer.threads, options_.prompt,
                           options_.decode);
    };
    QuietWindow window(cores_, peer.threads);
    SS_ASSIGN_OR_RETURN(const PeerSpeed speed, run());
    const bool counts = window.Counts();
    peer.prefill.Add(counts ? std::optional(speed.prefill) : std::nullopt);
    peer.decode.Add(counts ? std::optional(speed.decode) : std::nullopt);
    if (!disturb(peer.threads)) return {};
    QuietWindow second(cores_, peer.threads);
    std::optional<double> disturbed;
    {
      const BusyNeighbour neighbour;
      SS_ASSIGN_OR_RETURN(const PeerSpeed beside, run());
      disturbed = beside.decode;
    }
    peer.disturbed.Add(second.Counts() ? disturbed : std::nullopt);
    return {};
  }

  const PeerSamples* PeerOf(int threads) const {
    const auto found = std::find_if(peers_.begin(), peers_.end(), [&](const PeerSamples& peer) {
      return peer.threads == threads;
    });
    return found == peers_.end() ? nullptr : &*found;
  }

  const ModelRunOptions& options_;
  const Setup& setup_;
  WeightBuffer& weights_;
  QuietCores& cores_;
  ThreadPools pools_;
  int most_threads_ = 1;
  size_t roof_position_ = 0;
  std::vector<OurSamples> ours_;
  std::vector<PeerSamples> peers_;
  std::map<int, RoofSamples> roofs_;
};

Row MakeRow(std::string group, std::string name, const Samples& samples, std::string unit) {
  Row row;
  row.group = std::move(group);
  row.name = std::move(name);
  row.value = samples.median();
  row.unit = std::move(unit);
  row.rounds = samples.rounds;
  row.counted = static_cast<int>(samples.values.size());
  return row;
}

std::optional<double> Scaled(const std::optional<double>& value, double by) {
  return value ? std::optional(*value * by) : std::nullopt;
}

std::vector<Row> ModelComparison::Rows(const plan::TokenCost& cost) const {
  const std::string model =
      std::filesystem::path(options_.directory + "/").parent_path().filename();
  const std::string peer_type = std::filesystem::path(options_.peer_model).stem();
  const auto prompt = static_cast<double>(options_.prompt);
  const double prefill_operations =
      cost.operations - cost.head_operations + cost.head_operations / prompt;
  const auto decode_bytes = static_cast<double>(cost.decode_bytes);

  std::vector<Row> roof_rows, rows, scaling;
  for (const auto& [threads, roofs] : roofs_) {
    for (const auto& [streams, samples] : roofs.memory) {
      Row row = MakeRow("roof", fmt::format("memory read, streams: {}", streams), samples, "GB/s");
      row.value = Scaled(row.value, 1e-9);
      row.mode = row.isa = "-";
      row.threads = threads;
      roof_rows.push_back(row);
    }
  }
  std::map<std::tuple<std::string, std::string, std::string>, double> alone;  // prefill, 1 thread
  const auto add_scaling = [&](const Row& prefill) {
    if (!prefill.value) return;
    const auto key = std::tuple(prefill.name, prefill.mode, prefill.isa);
    if (prefill.threads == 1) alone[key] = *prefill.value;
    if (prefill.threads == 1 || !alone.contains(key)) return;
    Row row = prefill;
    row.group = "thread scaling";
    row.name = model + " prefill";
    row.value = *prefill.value / alone[key];
    row.unit = "x";
    row.roof = row.threads;
    row.peer.reset();
    row.peer_types.clear();
    scaling.push_back(row);
  };
  const auto fill = [&](Row row, const OurSamples& ours, const std::optional<double>& theirs) {
    row.mode = kernels::NameOf(ours.mode);
    row.isa = std::string(ours.table->panel(ours.mode).instructions);
    row.threads = ours.threads;
    row.peer = theirs;
    if (theirs) {
      row.peer_name = peer_type;
      row.peer_types = {{peer_type, *theirs}};
    }
    return row;
  };
  for (const OurSamples& ours : ours_) {
    const RoofSamples& roofs = roofs_.at(ours.threads);
    const PeerSamples* peer = PeerOf(ours.threads);
    const auto theirs = [&](Samples PeerSamples::* what) {
      return peer == nullptr ? std::nullopt : (peer->*what).median();
    };
    Row prefill = fill(MakeRow("model prefill", model, ours.prefill, "tokens/s"), ours,
                       theirs(&PeerSamples::prefill));
    prefill.rows = options_.prompt;
    if (const auto peak = roofs.peaks.find(PeakKey(*ours.table, ours.mode));
        peak != roofs.peaks.end()) {
      prefill.roof = Scaled(peak->second.median(), 1 / prefill_operations);
    }
    rows.push_back(prefill);
    add_scaling(prefill);

    Row decode = fill(MakeRow("model decode", model, ours.decode, "tokens/s"), ours,
                      theirs(&PeerSamples::decode));
    decode.rows = 1;
    decode.roof = Scaled(roofs.best_memory(), 1 / decode_bytes);
    rows.push_back(decode);

    if (ours.disturbed.rounds == 0) continue;
    Row disturbed = fill(MakeRow("busy neighbour", model + " decode", ours.disturbed, "tokens/s"),
                         ours, theirs(&PeerSamples::disturbed));
    disturbed.rows = 1;
    disturbed.roof = ours.decode.median();
    rows.push_back(disturbed);
  }
  for (const PeerSamples& peer : peers_) {
    const auto add = [&](Row row, size_t count, std::optional<double> roof) {
      row.mode = peer_type;
      row.isa = "llama.cpp";
      row.threads = peer.threads;
      row.rows = count;
      row.roof = roof;
      rows.push_back(row);
      return row;
    };
    add_scaling(
        add(MakeRow("model prefill", model, peer.prefill, "tokens/s"), options_.prompt, {}));
    add(MakeRow("model decode", model, peer.decode, "tokens/s"), 1, {});
    if (peer.disturbed.rounds == 0) continue;
    add(MakeRow("busy neighbour", model + " decode", peer.disturbed, "tokens/s"), 1,
        peer.decode.median());
  }
  roof_rows.insert(roof_rows.end(), rows.begin(), rows.end());
  roof_rows.insert(roof_rows.end(), scaling.begin(), scaling.end());
  return roof_rows;
}

std::vector<DecodedToken> ModelComparison::Tokens() const {
  std::vector<DecodedToken> tokens;
  for (const OurSamples& ours : ours_) {
    if (const std::optional<double> speed = ours.decode.median()) {
      tokens.push_back({ours.table, ours.mode, ours.threads, 1e3 / *speed});
    }
  }
  return tokens;
}

}  // namespace

Result<std::vector<Row>> MeasureModel(const ModelRunOptions& options) {
  const CommonOptions& common = options.common;
  SS_ASSIGN_OR_RETURN(const Setup setup, MakeSetup(common));
  if (options.prompt == 0 || options.decode == 0) {
    return Fail(ErrorCode::kInvalidArgument, "--prompt and --decode must be at least 1");
  }
  if (!options.peer_model.empty() && common.peer.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                "--peer-model needs --peer, the folder of its program");
  }
  SS_ASSIGN_OR_RETURN(const auto checkpoint, checkpoint::Checkpoint::Open(options.directory));
  const plan::TokenCost cost = plan::CostOf(*checkpoint);
  SS_ASSIGN_OR_RETURN(
      WeightBuffer weights,
      WeightBuffer::Allocate((common.quick ? kQuickMemoryMib : common.memory_mib) << 20));
  QuietCores cores(common.quick || common.shared_cores);
  ModelComparison comparison(options, setup, weights, cores);
  const int rounds = common.quick ? 1 : common.rounds > 0 ? common.rounds : kRounds;
  for (int round = 0; round < rounds; ++round) {
    fmt::print(stderr, "round {} of {}\n", round + 1, rounds);
    SS_RETURN_IF_ERROR(comparison.Round());
  }
  std::vector<Row> rows = comparison.Rows(cost);
  SS_ASSIGN_OR_RETURN(
      const std::vector<Row> parts,
      MeasureDecodeParts(*checkpoint, cost, comparison.Tokens(), weights, comparison.pools(),
                         common.quick ? kQuickPartRounds : kPartRounds, cores));
  rows.insert(rows.end(), parts.begin(), parts.end());
  return rows;
}

}  // namespace slotstream::bench
