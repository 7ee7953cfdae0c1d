#include "server/prefix_report.h"

#include <array>
#include <numeric>

namespace slotstream::server {
namespace {

// In the order of state::EntryClass.
constexpr std::array<const char*, state::kEntryClasses> kClassNames = {
    "superseded", "one_off", "side", "conversation", "shared"};

constexpr uint64_t kNanosPerMilli = 1'000'000;

}  // namespace

void AddPrefixMetrics(const engine::PrefixReuse* prefixes, const MetricSink& add) {
  if (prefixes == nullptr) return;
  const auto count = [&add](std::string_view name, std::string_view help, uint64_t value) {
    add(name, "counter", help, static_cast<double>(value));
  };
  const auto gauge = [&add](std::string_view name, std::string_view help, uint64_t value) {
    add(name, "gauge", help, static_cast<double>(value));
  };
  const state::PrefixCacheStats memory = prefixes->stats();
  count("prefix_requests_total", "Prompts looked up in the prefix cache", memory.requests);
  count("prefix_hits_total", "Prompts of which a beginning was found", memory.hits);
  count("prefix_evictions_total", "States evicted from memory",
        std::reduce(memory.evicted.begin(), memory.evicted.end()));
  gauge("prefix_states", "States in memory", memory.entries);
  gauge("prefix_bytes", "Memory of states", memory.bytes);
  gauge("prefix_budget_bytes", "Memory that states may have", memory.budget);
  const auto disk = prefixes->disk_stats();
  if (!disk) return;
  count("prefix_disk_hits_total", "States read from disk", disk->hits);
  count("prefix_disk_read_bytes_total", "Bytes of states read from disk", disk->bytes_read);
  const auto seconds = [&add](std::string_view name, std::string_view help, uint64_t nanos) {
    add(name, "counter", help, static_cast<double>(nanos) / 1e9);
  };
  seconds("prefix_disk_read_seconds_total",
          "Time from asking the disk for a state to its last byte", disk->restore_nanos);
  seconds("prefix_disk_wait_seconds_total", "Of it, waited for; the rest hidden behind a pass",
          disk->restore_waited_nanos);
  count("prefix_disk_written_bytes_total", "Bytes of states written to disk", disk->bytes_written);
  count("prefix_disk_saves_total", "States written to disk", disk->saved);
  count("prefix_disk_damaged_total", "Files dropped because they were damaged", disk->damaged);
  gauge("prefix_disk_states", "States on disk", disk->heads);
  gauge("prefix_disk_bytes", "Bytes of states on disk", disk->bytes);
  gauge("prefix_disk_quota_bytes", "Bytes that states on disk may have", disk->quota);
}

Json PrefixStatus(const engine::PrefixReuse& prefixes) {
  if (!prefixes.enabled()) return {{"enabled", false}};
  const state::PrefixCacheStats memory = prefixes.stats();
  Json evicted = Json::object();
  for (size_t i = 0; i < kClassNames.size(); ++i) evicted[kClassNames[i]] = memory.evicted[i];
  Json status = {{"enabled", true},
                 {"requests", memory.requests},
                 {"hits", memory.hits},
                 {"tokens_asked", memory.tokens_asked},
                 {"tokens_known", memory.tokens_known},
                 {"tokens_served", memory.tokens_served},
                 {"states", memory.entries},
                 {"bytes", memory.bytes},
                 {"budget_bytes", memory.budget},
                 {"evicted", std::move(evicted)}};
  if (const auto disk = prefixes.disk_stats()) {
    status["disk"] = {{"states", disk->heads},
                      {"bytes", disk->bytes},
                      {"quota_bytes", disk->quota},
                      {"hits", disk->hits},
                      {"bytes_read", disk->bytes_read},
                      {"read_ms", disk->restore_nanos / kNanosPerMilli},
                      {"waited_ms", disk->restore_waited_nanos / kNanosPerMilli},
                      {"saved", disk->saved},
                      {"skipped", disk->skipped},
                      {"bytes_written", disk->bytes_written},
                      {"last_save_bytes", disk->last_save_bytes},
                      {"evicted", disk->evicted},
                      {"damaged", disk->damaged},
                      {"last_reason", disk->last_reason}};
  } else if (!prefixes.disk_problem().empty()) {
    status["disk"] = {{"problem", prefixes.disk_problem()}};
  }
  return status;
}

}  // namespace slotstream::server
