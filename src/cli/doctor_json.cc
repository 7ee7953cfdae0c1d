#include <nlohmann/json.hpp>

#include "base/version.h"
#include "cli/doctor_report.h"

namespace slotstream::cli {
namespace {

using Json = nlohmann::ordered_json;
using plan::Range;

Json Of(const Range& range) { return {range.low, range.typical, range.high}; }

Json Of(const plan::DiskRates& rates) {
  return {{"single", Of(rates.single)},
          {"full", Of(rates.full)},
          {"ordered", Of(rates.ordered)},
          {"rows_per_second", rates.rows_per_second},
          {"core_seconds", rates.core_seconds}};
}

Json Of(const plan::Forecast& forecast) {
  return {{"hit_rate", Of(forecast.hit_rate)},
          {"decode", Of(forecast.decode)},
          {"prefill", Of(forecast.prefill)},
          {"read_per_token", forecast.read_per_token},
          {"disk_share", forecast.disk_share}};
}

Json Of(const Result<plan::Plan>& plan) {
  if (!plan) return {{"refused", plan.error().message}};
  Json ledger = Json::object();
  for (const plan::LedgerLine& line : plan->ledger) ledger[line.name] = line.bytes;
  return {{"slots", plan->slots},
          {"all_slots", plan->all_slots},
          {"most_slots", plan->most_slots},
          {"pass", plan->pass_rows},
          {"max_context", plan->max_context},
          {"threads", plan->threads},
          {"total_bytes", plan->total},
          {"budget_bytes", plan->budget},
          {"ledger_bytes", ledger},
          {"notes", plan->notes}};
}

const char* NameOf(engine::RatesSource source) {
  switch (source) {
    case engine::RatesSource::kMeasured:
      return "measured";
    case engine::RatesSource::kProfile:
      return "profile";
    case engine::RatesSource::kAssumed:
      return "assumed";
    case engine::RatesSource::kNone:
      break;
  }
  return "none";
}

// "no limit" is null.
Json Limit(uint64_t bytes) { return bytes == plan::kUnlimited ? Json() : Json(bytes); }

Json Of(const plan::MachineFacts& machine) {
  Json swaps = Json::array(), caches = Json::array();
  for (const plan::Swap& swap : machine.memory.swaps) {
    swaps.push_back({{"bytes", swap.bytes}, {"compressed_memory", swap.compressed_memory}});
  }
  for (const plan::Cache& cache : machine.cpu.caches) {
    caches.push_back(
        {{"level", cache.level}, {"bytes", cache.bytes}, {"shared_by", cache.shared_by}});
  }
  return {{"processor", machine.cpu.name},
          {"cores", machine.cores},
          {"allowed_processors", machine.cpu.allowed},
          {"processor_quota", machine.cpu.quota ? Json(*machine.cpu.quota) : Json()},
          {"caches", caches},
          {"kernels", machine.cpu.kernels},
          {"graphics", machine.gpus},
          {"memory_bytes", machine.memory_total},
          {"available_bytes", machine.memory_available},
          {"promised_bytes", machine.memory_promised},
          {"group_limit_bytes", Limit(machine.memory.group.limit)},
          {"lock_limit_bytes", Limit(machine.memory.lock_limit)},
          {"stalled_percent", machine.memory.stalled ? Json(*machine.memory.stalled) : Json()},
          {"swap", swaps},
          {"huge_pages", machine.memory.huge_pages},
          {"container", machine.container}};
}

}  // namespace

std::string ExaminationJson(const engine::Examination& found, const std::string& model) {
  Json disk = {{"source", NameOf(found.source)}, {"record_bytes", found.record_bytes}};
  if (found.disk) {
    disk["kind"] = DiskKindName(found.disk->kind);
    disk["name"] = found.disk->name;
    disk["file_system"] = found.disk->file_system;
  }
  if (found.source != engine::RatesSource::kNone) disk["rates"] = Of(found.disk_rates);
  if (found.measured_at > 0) disk["measured_at"] = found.measured_at;
  Json table = Json::array();
  const bool rated = found.source != engine::RatesSource::kNone;
  for (const engine::SimulatedMachine& machine : found.table) {
    Json forecasts = Json::array();
    for (size_t i = 0; i < machine.forecasts.size(); ++i) {
      Json forecast = Of(machine.forecasts[i]);
      const size_t assumed = i - (rated ? 1 : 0);
      forecast["disk"] =
          rated && i == 0 ? Json("this disk") : Json(engine::kSimulatedDisks[assumed]);
      forecasts.push_back(std::move(forecast));
    }
    table.push_back(
        {{"memory_bytes", machine.memory}, {"plan", Of(machine.plan)}, {"forecasts", forecasts}});
  }
  const Json json = {{"schema_version", 1},
                     {"version", kVersion},
                     {"model", model},
                     {"machine", Of(found.machine)},
                     {"disk", disk},
                     {"compute",
                      {{"kernels", found.kernels},
                       {"memory", Of(found.compute.memory)},
                       {"row_weights", Of(found.compute.row_weights)},
                       {"dense_pass", Of(found.compute.dense_pass)},
                       {"expert_pass", Of(found.compute.expert_pass)}}},
                     {"plan", Of(found.plan)},
                     {"forecast", found.forecast ? Of(*found.forecast) : Json()},
                     {"warnings", found.warnings},
                     {"table", table}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace slotstream::cli
