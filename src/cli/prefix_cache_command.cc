// `slotstream prefix-cache`: what a prefix cache on disk holds, and its removal. Loads no model.

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cstdio>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "state/prefix_directory.h"

namespace slotstream::cli {
namespace {

struct Options {
  std::string directory;
  bool clear = false;
  bool json = false;
};

std::string TimeText(int64_t seconds) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(seconds)));
}

Result<int> Clear(const Options& options) {
  SS_ASSIGN_OR_RETURN(const uint64_t bytes, state::ClearPrefixes(options.directory));
  if (options.json) {
    fmt::print("{}\n", nlohmann::json{{"removed_bytes", bytes}}.dump());
  } else {
    fmt::print("removed {} bytes\n", bytes);
  }
  return 0;
}

void PrintJson(const std::vector<state::PrefixListing>& files) {
  nlohmann::json list = nlohmann::json::array();
  uint64_t bytes = 0;
  for (const state::PrefixListing& listing : files) {
    bytes += listing.file.bytes;
    nlohmann::json entry = {{"name", listing.file.name},
                            {"bytes", listing.file.bytes},
                            {"last_use", TimeText(listing.file.last_use)}};
    if (listing.tokens > 0) {
      entry.update(
          {{"tokens", listing.tokens}, {"turn", listing.turn}, {"shared", listing.junction}});
    }
    if (!listing.problem.empty()) entry["problem"] = listing.problem;
    list.push_back(std::move(entry));
  }
  fmt::print("{}\n", nlohmann::json{{"bytes", bytes}, {"files", std::move(list)}}.dump(2));
}

void PrintText(const std::vector<state::PrefixListing>& files) {
  uint64_t bytes = 0, states = 0;
  for (const state::PrefixListing& listing : files) {
    bytes += listing.file.bytes;
    if (!listing.problem.empty()) {
      fmt::print("{}  {}  {}\n", TimeText(listing.file.last_use), listing.file.name,
                 listing.problem);
    } else if (listing.tokens > 0) {
      ++states;
      fmt::print("{}  {}  {} tokens, turn {}{}, {} bytes\n", TimeText(listing.file.last_use),
                 listing.file.name, listing.tokens, listing.turn,
                 listing.junction ? ", shared" : "", listing.file.bytes);
    }
  }
  fmt::print("{} states, {} bytes with their rows\n", states, bytes);
}

Result<int> Run(const Options& options) {
  if (options.clear) return Clear(options);
  SS_ASSIGN_OR_RETURN(const std::vector<state::PrefixListing> files,
                      state::ListPrefixes(options.directory));
  if (options.json) {
    PrintJson(files);
  } else {
    PrintText(files);
  }
  return 0;
}

}  // namespace

void AddPrefixCacheCommand(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("prefix-cache", "List or clear a prefix cache on disk");
  command->add_option("--dir", options->directory, "Its directory")->required()->type_name("DIR");
  command->add_flag("--clear", options->clear, "Remove its states; refused while it is in use");
  command->add_flag("--json", options->json, "As JSON");
  command->callback([options, &action] { action = [options] { return Run(*options); }; });
}

}  // namespace slotstream::cli
