#include "cli/run_stats.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <nlohmann/json.hpp>

#include "base/version.h"
#include "io/atomic_file.h"

namespace slotstream::cli {
namespace {

double PerSecond(size_t tokens, uint64_t nanos) {
  return nanos == 0 ? 0.0 : static_cast<double>(tokens) * 1e9 / static_cast<double>(nanos);
}

double Seconds(uint64_t nanos) { return static_cast<double>(nanos) / 1e9; }

}  // namespace

uint64_t PeakResidentBytes() {
  rusage usage = {};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

std::string FormatSummary(const RunReport& report) {
  const generate::GenerationResult& result = report.result;
  const experts::StoreStats stats = report.loaded.experts().stats();
  const uint64_t asked = stats.hits + stats.misses + stats.swept;
  // The first token comes out of the prompt's last pass.
  const size_t decoded = result.output.size() - 1;
  return fmt::format(
      "prompt: {} tokens in {:.2f} s ({:.1f}/s); reply: {} tokens in {:.2f} s ({:.1f}/s), {}\n"
      "experts: {:.1f}% of {} found in memory, {} read in {:.2f} s, {:.2f} s waited\n"
      "memory: {} at most, {} planned",
      result.prompt_tokens, Seconds(result.prefill_nanos),
      PerSecond(result.prompt_tokens, result.prefill_nanos), result.output.size(),
      Seconds(result.decode_nanos), PerSecond(decoded, result.decode_nanos),
      generate::FinishReasonName(result.reason),
      asked == 0 ? 0.0 : 100.0 * static_cast<double>(stats.hits) / static_cast<double>(asked),
      asked, plan::FormatBytes(stats.bytes_read), Seconds(stats.read_nanos),
      Seconds(stats.wait_nanos), plan::FormatBytes(PeakResidentBytes()),
      plan::FormatBytes(report.loaded.plan().total));
}

Status WriteStatsJson(const RunReport& report, const std::string& path) {
  using Json = nlohmann::ordered_json;
  const generate::GenerationResult& result = report.result;
  const engine::LoadedModel& loaded = report.loaded;
  const experts::StoreStats stats = loaded.experts().stats();
  Json ngrams = Json::array();
  for (const experts::NgramStats& ngram : loaded.ngram_stats()) {
    ngrams.push_back({{"hits", ngram.hits},
                      {"misses", ngram.misses},
                      {"retries", ngram.retries},
                      {"bytes_read", ngram.bytes_read},
                      {"wait_ns", ngram.wait_nanos}});
  }
  Json ledger = Json::object();
  for (const plan::LedgerLine& line : loaded.plan().ledger) ledger[line.name] = line.bytes;
  const Json json = {{"schema_version", 1},
                     {"version", kVersion},
                     {"prompt_ids", report.prompt_ids},
                     {"output_ids", result.output},
                     {"text", report.printer.text()},
                     {"reasoning", report.printer.reasoning()},
                     {"finish_reason", generate::FinishReasonName(result.reason)},
                     {"stop_string", result.stop_string},
                     {"seed", report.seed},
                     {"prefill_ns", result.prefill_nanos},
                     {"decode_ns", result.decode_nanos},
                     {"peak_resident_bytes", PeakResidentBytes()},
                     {"plan",
                      {{"slots", loaded.plan().slots},
                       {"pass", loaded.plan().pass_rows},
                       {"max_context", loaded.plan().max_context},
                       {"threads", loaded.plan().threads},
                       {"kernels", loaded.kernels().name},
                       {"io", loaded.io_name()},
                       {"total_bytes", loaded.plan().total},
                       {"budget_bytes", loaded.plan().budget},
                       {"ledger_bytes", ledger}}},
                     {"governor",
                      {{"shrinks", loaded.resize_stats().shrinks},
                       {"grows", loaded.resize_stats().grows},
                       {"least_slots", loaded.resize_stats().least_slots},
                       {"slots", loaded.cache_sizes().slots}}},
                     {"experts",
                      {{"hits", stats.hits},
                       {"misses", stats.misses},
                       {"swept", stats.swept},
                       {"evictions", stats.evictions},
                       {"retries", stats.retries},
                       {"read_ahead", stats.read_ahead},
                       {"wasted", stats.wasted},
                       {"bytes_read", stats.bytes_read},
                       {"read_ns", stats.read_nanos},
                       {"wait_ns", stats.wait_nanos}}},
                     {"ngrams", ngrams}};
  const std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  return io::WriteFileAtomically(path, std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace slotstream::cli
