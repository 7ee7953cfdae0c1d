// `slotstream replay`: what the expert pool would have hit with other sizes and policies.

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "experts/replay.h"

namespace slotstream::cli {
namespace {

using experts::HitCounts;
using experts::kPolicyKinds;
using experts::ReplayResult;

struct ReplayOptions {
  std::vector<std::string> files;
  std::vector<uint32_t> slots, slots_per_layer;
  bool by_layer = false, json = false;
};

// All policies with one number of slots, in the order of kPolicyKinds.
struct ReplayRow {
  uint32_t slots = 0;
  std::vector<ReplayResult> results;
};

Result<std::vector<experts::Trace>> ReadTraces(const std::vector<std::string>& files) {
  std::vector<experts::Trace> traces;
  for (const std::string& file : files) {
    SS_ASSIGN_OR_RETURN(experts::Trace trace, experts::ReadTrace(file));
    if (!trace.complete) {
      fmt::print(stderr, "note: {} was cut short; its first {} visits are replayed\n", file,
                 trace.visits.size());
    }
    traces.push_back(std::move(trace));
  }
  return traces;
}

Result<std::vector<ReplayRow>> ReplayAll(const ReplayOptions& options,
                                         const std::vector<experts::Trace>& traces) {
  const experts::TraceHeader& header = traces[0].header;
  // More would stay empty.
  const uint64_t all = uint64_t{header.layers} * header.experts;
  std::vector<ReplayRow> rows;
  const auto add = [&](uint64_t slots) {
    rows.push_back({static_cast<uint32_t>(std::min(slots, all)), {}});
  };
  for (uint32_t slots : options.slots) add(slots);
  for (uint32_t slots : options.slots_per_layer) add(uint64_t{slots} * header.layers);
  for (ReplayRow& row : rows) {
    for (experts::PolicyKind kind : kPolicyKinds) {
      SS_ASSIGN_OR_RETURN(row.results.emplace_back(), experts::Replay(traces, kind, row.slots));
    }
  }
  return rows;
}

HitCounts All(const ReplayResult& result) {
  HitCounts all = result.prompt;
  return all += result.decode;
}

std::string Rate(const HitCounts& counts) {
  if (counts.needs() == 0) return "-";
  return fmt::format("{:.4f}",
                     static_cast<double>(counts.hits) / static_cast<double>(counts.needs()));
}

// One line per row, one column per policy.
template <typename Rows, typename Label, typename Counts>
void PrintTable(const std::string& title, const std::string& label_title, const Rows& rows,
                Label label, Counts counts) {
  fmt::print("\n{}\n{:>20}", title, label_title);
  for (experts::PolicyKind kind : kPolicyKinds) fmt::print("{:>9}", experts::NameOf(kind));
  fmt::print("\n");
  for (const auto& row : rows) {
    fmt::print("{:>20}", label(row));
    for (size_t i = 0; i < kPolicyKinds.size(); ++i) fmt::print("{:>9}", Rate(counts(row, i)));
    fmt::print("\n");
  }
}

void Print(const ReplayOptions& options, const std::vector<experts::Trace>& traces,
           const std::vector<ReplayRow>& rows) {
  const experts::TraceHeader& header = traces[0].header;
  const ReplayResult& any = rows[0].results[0];
  fmt::print("{} layers of {} experts, {} of them a token; {} needs of prompts, {} of decoding\n",
             header.layers, header.experts, header.top_k, any.prompt.needs(), any.decode.needs());
  const auto slots = [&](const ReplayRow& row) {
    return fmt::format("{} ({:.1f})", row.slots, static_cast<double>(row.slots) / header.layers);
  };
  const std::string label = "slots (a layer)";
  PrintTable("Hit rates of decoding", label, rows, slots,
             [](const ReplayRow& row, size_t i) { return row.results[i].decode; });
  PrintTable("Hit rates of all, prompts that sweep included", label, rows, slots,
             [](const ReplayRow& row, size_t i) { return All(row.results[i]); });
  if (!options.by_layer) return;
  std::vector<uint32_t> layers(header.layers);
  std::iota(layers.begin(), layers.end(), 0u);
  for (const ReplayRow& row : rows) {
    PrintTable(
        fmt::format("Hit rates of decoding with {} slots", row.slots), "layer", layers,
        [](uint32_t layer) { return layer; },
        [&](uint32_t layer, size_t i) { return row.results[i].decode_by_layer[layer]; });
  }
}

using Json = nlohmann::ordered_json;

Json ToJson(const HitCounts& counts) {
  return {{"hits", counts.hits}, {"misses", counts.misses}, {"swept", counts.swept}};
}

void PrintJson(const ReplayOptions& options, const std::vector<experts::Trace>& traces,
               const std::vector<ReplayRow>& rows) {
  const experts::TraceHeader& header = traces[0].header;
  Json json = {{"schema_version", 1},
               {"layers", header.layers},
               {"experts", header.experts},
               {"top_k", header.top_k},
               {"complete", std::ranges::all_of(traces, &experts::Trace::complete)},
               {"rows", Json::array()}};
  for (const ReplayRow& row : rows) {
    Json policies = Json::object();
    for (size_t i = 0; i < kPolicyKinds.size(); ++i) {
      const ReplayResult& result = row.results[i];
      Json policy = {{"prompt", ToJson(result.prompt)},
                     {"decode", ToJson(result.decode)},
                     {"evictions", result.evictions}};
      if (options.by_layer) {
        policy["decode_by_layer"] = Json::array();
        for (const HitCounts& counts : result.decode_by_layer) {
          policy["decode_by_layer"].push_back(ToJson(counts));
        }
      }
      policies[std::string(experts::NameOf(kPolicyKinds[i]))] = std::move(policy);
    }
    json["rows"].push_back({{"slots", row.slots}, {"policies", std::move(policies)}});
  }
  fmt::print("{}\n", json.dump(2));
}

Result<int> Replay(const ReplayOptions& options) {
  SS_ASSIGN_OR_RETURN(const std::vector<experts::Trace> traces, ReadTraces(options.files));
  SS_ASSIGN_OR_RETURN(const std::vector<ReplayRow> rows, ReplayAll(options, traces));
  (options.json ? PrintJson : Print)(options, traces, rows);
  return 0;
}

}  // namespace

void AddReplayCommand(CLI::App& app, Action& action) {
  auto options = std::make_shared<ReplayOptions>();
  CLI::App* command = app.add_subcommand(
      "replay", "Print what other pools and policies would have hit in recorded runs");
  command
      ->add_option("TRACE", options->files,
                   "Files of `run --trace`; several go through one pool, one after another")
      ->required();
  CLI::Option_group* slots = command->add_option_group("slots");
  slots->add_option("--slots", options->slots, "Numbers of slots, separated by commas")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  slots
      ->add_option("--slots-per-layer", options->slots_per_layer,
                   "The same, in slots for each of the model's layers")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  slots->require_option(1, 2);
  command->add_flag("--by-layer", options->by_layer, "Also the rates of each layer");
  command->add_flag("--json", options->json, "Print counts as JSON");
  command->callback([options, &action] { action = [options] { return Replay(*options); }; });
}

}  // namespace slotstream::cli
