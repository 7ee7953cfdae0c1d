#include "bench/subjects.h"

#include <fmt/format.h>

#include <algorithm>

namespace slotstream::bench {
namespace {

// About 3 ms on a fast machine: far more than the cost of starting the threads.
constexpr size_t kRoofBytes = size_t{64} << 20;
// About 1 ms.
constexpr uint64_t kRoofLoops = 50'000;

}  // namespace

bool Subjects::Has(const std::string& key) const {
  return std::any_of(measurements_.begin(), measurements_.end(),
                     [&](const Measurement& measurement) { return measurement.key == key; });
}

std::vector<std::string> Subjects::AddMemoryRoof(int threads) {
  const size_t bytes = std::min(kRoofBytes, weights_.size());
  std::vector<std::string> keys;
  for (const int streams : kReadStreams) {
    const std::string& key = keys.emplace_back(fmt::format("roof memory {} {}", threads, streams));
    if (Has(key)) continue;
    roofs_.push_back({.row = {.group = kRoofGroup,
                              .name = fmt::format("memory read, streams: {}", streams),
                              .mode = "-",
                              .isa = "-",
                              .threads = threads,
                              .unit = "GB/s"},
                      .work = static_cast<double>(bytes),
                      .key = key});
    measurements_.push_back(
        {key, threads,
         [this, bytes, streams, &pool = pools_.of(threads), position = size_t{0}]() mutable {
           return ReadMemory(weights_, bytes, streams, pool, position);
         }});
  }
  return keys;
}

std::vector<std::string> Subjects::AddPeak(std::string_view instructions, bool integer,
                                           int threads) {
  const Peak* peak = FindPeak(instructions, integer);
  if (peak == nullptr) return {};
  std::string key = fmt::format("roof {} {} {}", instructions, peak->what, threads);
  if (Has(key)) return {key};
  roofs_.push_back({.row = {.group = kRoofGroup,
                            .name = std::string(peak->what),
                            .mode = integer ? "int8" : "float32",
                            .isa = std::string(instructions),
                            .threads = threads,
                            .unit = "Gop/s"},
                    .work = peak->operations * static_cast<double>(kRoofLoops) * threads,
                    .key = key});
  measurements_.push_back({key, threads, [peak, &pool = pools_.of(threads)] {
                             return RunPeak(*peak, kRoofLoops, pool);
                           }});
  return {key};
}

void Subjects::Add(Subject subject, std::function<double()> seconds) {
  measurements_.push_back({subject.key, subject.row.threads, std::move(seconds)});
  others_.push_back(std::move(subject));
}

std::vector<Row> Subjects::Run(const RoundOptions& options, QuietCores& cores) {
  const Timings timings = RunInterleaved(measurements_, options, cores);
  std::vector<Subject> subjects = roofs_;
  subjects.insert(subjects.end(), others_.begin(), others_.end());
  std::map<std::string, double> values;
  for (Subject& subject : subjects) {
    const auto found = timings.find(subject.key);
    if (found == timings.end()) continue;
    const Timing& timing = found->second;
    subject.row.rounds = timing.rounds;
    subject.row.counted = timing.counted;
    if (!timing.median) continue;
    subject.row.value = subject.work / *timing.median * 1e-9;
    values[subject.key] = *subject.row.value;
  }
  std::vector<Row> rows;
  for (Subject& subject : subjects) {
    Row& row = subject.row;
    for (const std::string& key : subject.roof_keys) {
      const auto roof = values.find(key);
      if (roof == values.end()) continue;
      row.roof = std::max(row.roof.value_or(0), roof->second * subject.roof_scale);
    }
    for (const auto& [type, key] : subject.peers) {
      const auto value = values.find(key);
      if (value == values.end()) continue;
      row.peer_types[type] = value->second;
      if (!row.peer || value->second > *row.peer) {
        row.peer = value->second;
        row.peer_name = type;
      }
    }
    rows.push_back(row);
  }
  return rows;
}

}  // namespace slotstream::bench
