#include "cli/doctor_report.h"

#include <fmt/format.h>

#include <iterator>
#include <string_view>

#include "base/version.h"

namespace slotstream::cli {
namespace {

using engine::Examination;
using engine::RatesSource;
using plan::FormatBytes;
using plan::Range;

class Page {
 public:
  // A line under a heading of its own, or below the last one's when `heading` is empty.
  void Line(std::string_view heading, std::string_view text) {
    fmt::format_to(std::back_inserter(text_), "{:<10}{}\n", heading, text);
  }
  void Blank() { text_ += "\n"; }
  void Raw(std::string_view text) { text_ += text; }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

std::string Speed(double bytes_per_second) {
  return FormatBytes(static_cast<uint64_t>(bytes_per_second)) + "/s";
}

std::string Speed(const Range& range) {
  return fmt::format("{} ({:.2f} to {:.2f})", Speed(range.typical), range.low / 1e9,
                     range.high / 1e9);
}

std::string Tokens(const Range& range) {
  return fmt::format("{:.1f} tokens/s ({:.1f} to {:.1f})", range.typical, range.low, range.high);
}

std::string SourceOf(const Examination& found) {
  switch (found.source) {
    case RatesSource::kMeasured:
      return "measured now, by reading the model's own records";
    case RatesSource::kProfile:
      return "measured before by reading the model's own records; --measure does it again";
    case RatesSource::kAssumed:
      return "assumed (--sim-disk)";
    case RatesSource::kNone:
      break;
  }
  return "not known: --model DIR measures the disk of a checkpoint";
}

void AddMachine(const Examination& found, Page& page) {
  const plan::MachineFacts& machine = found.machine;
  const plan::CpuFacts& cpu = machine.cpu;
  page.Line("processor",
            fmt::format("{}, {} cores to compute with, {} kernels",
                        cpu.name.empty() ? "unnamed" : cpu.name, machine.cores, found.kernels));
  std::string caches;
  for (const plan::Cache& cache : cpu.caches) {
    caches +=
        fmt::format("{}L{} {} KiB", caches.empty() ? "" : ", ", cache.level, cache.bytes >> 10);
  }
  if (!caches.empty()) page.Line("", fmt::format("caches: {}", caches));
  std::string gpus;
  for (const std::string& gpu : machine.gpus) gpus += (gpus.empty() ? "" : ", ") + gpu;
  if (!gpus.empty()) page.Line("", fmt::format("graphics, not computed on: {}", gpus));
  page.Line("memory", fmt::format("{}, {} available{}", FormatBytes(machine.memory_total),
                                  FormatBytes(machine.memory_available),
                                  machine.container ? ", in a container" : ""));
  for (const engine::RunningEngine& engine : found.engines) {
    page.Line("", fmt::format("another slotstream, process {}, planned {} and uses {}", engine.pid,
                              FormatBytes(engine.planned), FormatBytes(engine.resident)));
  }
  uint64_t swap = 0;
  for (const plan::Swap& area : machine.memory.swaps) swap += area.bytes;
  page.Line("",
            fmt::format("swap: {}; huge pages: {}", swap == 0 ? "none" : FormatBytes(swap),
                        machine.memory.huge_pages.empty() ? "unknown" : machine.memory.huge_pages));
}

void AddRates(const Examination& found, Page& page) {
  if (found.disk) {
    const plan::DiskFacts& disk = *found.disk;
    page.Line("disk", fmt::format("{}{}{}, {}", DiskKindName(disk.kind),
                                  disk.name.empty() ? "" : " ", disk.name, disk.file_system));
  } else {
    page.Line("disk", "none looked at");
  }
  if (found.source != RatesSource::kNone) {
    page.Line("", fmt::format("one expert of {} at a time: {}", FormatBytes(found.record_bytes),
                              Speed(found.disk_rates.single)));
    page.Line("", fmt::format("many at once: {}", Speed(found.disk_rates.full)));
    page.Line("", fmt::format("whole layers: {}", Speed(found.disk_rates.ordered)));
    if (found.disk_rates.rows_per_second > 0) {
      page.Line("", fmt::format("n-gram rows: {:.0f}/s", found.disk_rates.rows_per_second));
    }
    page.Line("", fmt::format("reading costs the cores {:.2f} s/GB",
                              found.disk_rates.core_seconds * 1e9));
  }
  page.Line("", SourceOf(found));
  page.Line("speed", fmt::format("memory read: {}", Speed(found.compute.memory)));
  page.Line("", fmt::format("weights of replies: {}", Speed(found.compute.row_weights)));
  page.Line("", fmt::format("prompts: {:.0f} Gop/s in the trunk, {:.0f} in experts",
                            found.compute.dense_pass.typical / 1e9,
                            found.compute.expert_pass.typical / 1e9));
  page.Line("", "timed now");
}

void AddPlan(const Examination& found, Page& page) {
  if (!found.plan) {
    page.Line("plan", "none: " + found.plan.error().message);
    return;
  }
  const plan::Plan& plan = *found.plan;
  page.Line("plan", plan.Summary());
  for (const plan::LedgerLine& line : plan.ledger) {
    page.Line("", fmt::format("{:<16}{:>10}", line.name, FormatBytes(line.bytes)));
  }
  page.Line("", fmt::format("context of {} tokens", plan.max_context));
  for (const std::string& note : plan.notes) page.Line("", note);
}

void AddForecast(const Examination& found, Page& page) {
  if (!found.forecast) return;
  const plan::Forecast& forecast = *found.forecast;
  page.Line("forecast", "replies: " + Tokens(forecast.decode));
  page.Line("", "prompts: " + Tokens(forecast.prefill));
  page.Line("", fmt::format("{:.0f} % of experts in memory ({:.0f} to {:.0f}), {} read per token, "
                            "{:.0f} % of a reply's time waiting for it",
                            100 * forecast.hit_rate.typical, 100 * forecast.hit_rate.low,
                            100 * forecast.hit_rate.high,
                            FormatBytes(static_cast<uint64_t>(forecast.read_per_token)),
                            100 * forecast.disk_share));
  page.Line("", "from the rates above and the hit rates in docs/CACHE.md");
}

void AddTable(const Examination& found, Page& page) {
  const bool rated = found.source != RatesSource::kNone;
  page.Raw("with other memory and disks, this processor: replies / prompts, tokens/s\n");
  std::string head = fmt::format("{:>8} {:>6}", "memory", "slots");
  if (rated) head += fmt::format("  {:>13}", "this disk");
  for (const double disk : engine::kSimulatedDisks) {
    head += fmt::format("  {:>13}", fmt::format("{:.1f} GB/s", disk / 1e9));
  }
  page.Raw(head + "\n");
  for (const engine::SimulatedMachine& machine : found.table) {
    std::string row = fmt::format("{:>5} GB", machine.memory / 1'000'000'000);
    if (!machine.plan) {
      page.Raw(row + "  no plan fits\n");
      continue;
    }
    row += fmt::format(" {:>6}", machine.plan->slots);
    for (const plan::Forecast& forecast : machine.forecasts) {
      row +=
          fmt::format("  {:>5.1f} / {:>5.1f}", forecast.decode.typical, forecast.prefill.typical);
    }
    page.Raw(row + "\n");
  }
}

}  // namespace

std::string FormatExamination(const Examination& found, const std::string& model) {
  Page page;
  page.Raw(fmt::format("slotstream {}: {}\n\n", kVersion, model));
  AddMachine(found, page);
  AddRates(found, page);
  page.Blank();
  AddPlan(found, page);
  AddForecast(found, page);
  page.Blank();
  for (const std::string& warning : found.warnings) page.Raw("warning: " + warning + "\n");
  if (!found.warnings.empty()) page.Blank();
  AddTable(found, page);
  return page.Take();
}

}  // namespace slotstream::cli
