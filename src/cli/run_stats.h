// What a run did, for people and as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/reply_printer.h"
#include "engine/loaded_model.h"
#include "generate/generator.h"

namespace slotstream::cli {

struct RunReport {
  const engine::LoadedModel& loaded;
  const generate::GenerationResult& result;
  const std::vector<uint32_t>& prompt_ids;
  const ReplyPrinter& printer;
  uint64_t seed;
};

// A few lines: tokens and rates, the pool, memory.
std::string FormatSummary(const RunReport& report);

// Peak resident bytes of this process so far; 0 where the system does not tell.
uint64_t PeakResidentBytes();

// Schema version 1: ids, texts, finish reason, seed, timings in nanoseconds, statistics in bytes
// and counts, the plan's ledger.
Status WriteStatsJson(const RunReport& report, const std::string& path);

}  // namespace slotstream::cli
