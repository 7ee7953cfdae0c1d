// `slotstream pack`: an original checkpoint into the packed form, or a check of a packed one.

#include <fmt/format.h>

#include <memory>
#include <string>

#include "base/clock.h"
#include "checkpoint/pack_writer.h"
#include "checkpoint/verify_packed.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "io/backend.h"
#include "io/read_queue.h"
#include "plan/plan.h"

namespace slotstream::cli {
namespace {

constexpr size_t kVerifyDepth = 32;

Result<int> Pack(const std::string& source, const std::string& destination) {
  InterruptScope interrupt;
  PhaseBars bars;
  checkpoint::PackOptions options;
  options.cancel = &interrupt.flag();
  options.progress = [&](std::string_view phase, uint64_t done, uint64_t total) {
    bars.Update(phase, done, total);
  };
  auto summary = checkpoint::Pack(source, destination, options);
  bars.Finish();
  if (!summary) {
    if (summary.error().code != ErrorCode::kCancelled) {
      return std::unexpected(std::move(summary).error());
    }
    fmt::print(stderr, "interrupted; the same command goes on from here\n");
    return kExitInterrupted;
  }
  for (const std::string& note : summary->notes) fmt::print(stderr, "note: {}\n", note);
  fmt::print("{}: {} packed and verified{}\n", destination, plan::FormatBytes(summary->bytes),
             summary->resumed ? " (resumed)" : "");
  return 0;
}

Result<int> Verify(const std::string& directory) {
  SS_ASSIGN_OR_RETURN(auto backend, io::MakeBackend(io::BackendKind::kAuto, kVerifyDepth, nullptr));
  io::ReadQueue queue(std::move(backend), Clock::Steady());
  InterruptScope interrupt;
  ProgressBar bar("verify");
  checkpoint::VerifyOptions options;
  options.progress = [&](uint64_t done, uint64_t total) {
    bar.Update(done, total);
    return !interrupt.interrupted();
  };
  auto result = checkpoint::VerifyPacked(directory, queue, options);
  bar.Finish();
  if (!result) {
    if (result.error().code == ErrorCode::kCancelled) return kExitInterrupted;
    return std::unexpected(std::move(result).error());
  }
  for (const checkpoint::BadPlace& place : result->bad) {
    fmt::print("bad: {}\n", checkpoint::FormatBadPlace(place));
  }
  if (result->bad.empty()) {
    fmt::print("{}: {} verified, everything is as it was packed\n", directory,
               plan::FormatBytes(result->bytes));
    return 0;
  }
  fmt::print("{}: {} places are bad; pack it again\n", directory, result->bad.size());
  return 1;
}

}  // namespace

void AddPackCommand(CLI::App& app, Action& action) {
  struct Options {
    std::string source, destination;
    bool verify = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "pack", "Rewrite an original checkpoint so that one expert is one read, with checksums");
  command->add_option("SRC", options->source, "Original checkpoint, or packed with --verify")
      ->required();
  command->add_option("DST", options->destination, "New directory; an interrupted pack is resumed");
  command->add_flag("--verify", options->verify, "Read a packed checkpoint and check every byte");
  command->callback([options, &action] {
    if (options->verify != options->destination.empty()) {
      throw CLI::ValidationError("pack", "needs SRC and DST, or --verify and one directory");
    }
    action = [options] {
      return options->verify ? Verify(options->source)
                             : Pack(options->source, options->destination);
    };
  });
}

}  // namespace slotstream::cli
