// slotstream-bench: how fast this machine is, how fast we are on it, and how fast the peer.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <functional>

#include "base/version.h"
#include "bench/forecast_command.h"
#include "bench/kernels_command.h"
#include "bench/model_command.h"
#include "bench/report.h"
#include "bench/state_command.h"
#include "bench/stream_command.h"

namespace slotstream::bench {
namespace {

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;

using Action = std::function<Result<std::vector<Row>>()>;

struct Output {
  std::string json;
  bool markdown = false;
};

void AddCommonOptions(CLI::App& command, CommonOptions& options, Output& output) {
  command
      .add_option("--threads", options.threads, "Thread counts, e.g. 1,2 (default: 1, all cores)")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024));
  command.add_option("--isa", options.isas, "Kernels, e.g. avx2,avx512 (default: the fastest)")
      ->delimiter(',');
  command.add_option("--compute", options.modes, "Compute modes, e.g. exact,int8 (default: all)")
      ->delimiter(',');
  command.add_option("--rounds", options.rounds, "Rounds to take the median of")
      ->check(CLI::Range(1, 1000));
  command
      .add_option("--memory-mib", options.memory_mib,
                  "Weights to stream, far more than the caches hold")
      ->check(CLI::Range(16, 1 << 20))
      ->capture_default_str();
  command.add_option("--peer", options.peer, "Folder of a llama.cpp build (docs/BENCHMARKS.md)")
      ->type_name("DIR");
  command.add_flag("--shared-cores", options.shared_cores,
                   "Count rounds too in which others had a part of the cores");
  command.add_flag("--small-pages", options.small_pages,
                   "Without huge pages, to see what they bring");
  command.add_flag("--quick", options.quick, "Show that it works; the figures mean nothing");
  command.add_option("--json", output.json, "Also write the rows to FILE; - is standard output")
      ->type_name("FILE");
  command.add_flag("--markdown", output.markdown, "Print the table as Markdown");
}

Status Print(const std::vector<Row>& rows, const Output& output) {
  if (output.json != "-") {
    fmt::print("{}", output.markdown ? MarkdownTable(rows) : TextTable(rows));
  }
  return output.json.empty() ? Status{} : WriteJson(rows, output.json);
}

int Main(int argc, char** argv) {
  CLI::App app("Measures slotstream, this machine's roofs and llama.cpp, interleaved.",
               "slotstream-bench");
  app.set_version_flag("--version", kVersion);
  app.require_subcommand(1);
  Output output;
  Action action;

  CommonOptions kernels;
  CLI::App* command = app.add_subcommand("kernels", "Products of the true model's shapes");
  AddCommonOptions(*command, kernels, output);
  command->callback([&] { action = [&] { return MeasureKernels(kernels); }; });

  ModelRunOptions model;
  command = app.add_subcommand("model", "Whole passes of a model whose experts are all in memory");
  AddCommonOptions(*command, model.common, output);
  command->add_option("--model", model.directory, "Checkpoint directory")
      ->required()
      ->type_name("DIR");
  command->add_option("--peer-model", model.peer_model, "The same model for the peer")
      ->type_name("GGUF");
  command->add_option("--prompt", model.prompt, "Tokens of the prefill")->capture_default_str();
  command->add_option("--decode", model.decode, "Tokens of the decode")->capture_default_str();
  command->callback([&] { action = [&] { return MeasureModel(model); }; });

  StateOptions state;
  command = app.add_subcommand("state", "States of conversations, in memory and on a disk");
  AddCommonOptions(*command, state.common, output);
  command->add_option("--dir", state.directory, "Scratch directory on the disk to measure")
      ->required()
      ->type_name("DIR");
  command->add_option("--tokens", state.tokens, "Length of the conversation")
      ->capture_default_str();
  command->callback([&] { action = [&] { return MeasureState(state); }; });

  StreamOptions stream;
  command = app.add_subcommand("stream", "A model whose experts do not fit into memory");
  AddCommonOptions(*command, stream.common, output);
  command->add_option("--model", stream.directory, "Checkpoint directory")
      ->required()
      ->type_name("DIR");
  command->add_option("--peer-model", stream.peer_model, "The same geometry for the peer")
      ->type_name("GGUF");
  command->add_option("--limit-mib", stream.limit_mib,
                      "Memory of the process, and of the peer, in control groups (needs root)");
  command->add_option("--slots-per-layer", stream.slots_per_layer,
                      "Expert slots per layer (default: what the memory allows)");
  command->add_option("--disk-gb-s", stream.disk_gb_s,
                      "Imitate a disk no faster than this (default: as fast as it is)");
  command->add_option("--prompt", stream.prompt, "Tokens of the prefill (default: none)");
  command->add_option("--pass", stream.pass, "Tokens of a pass (default: the whole prompt)");
  command->add_option("--decode", stream.decode, "Tokens of a round")->capture_default_str();
  command->add_option("--warm", stream.warm, "Tokens before the first round")
      ->capture_default_str();
  command->callback([&] { action = [&] { return MeasureStream(stream); }; });

  ForecastOptions forecast;
  command = app.add_subcommand("forecast", "What the planner foretells, beside what then happens");
  AddCommonOptions(*command, forecast.common, output);
  command->add_option("--model", forecast.directory, "Checkpoint directory")
      ->required()
      ->type_name("DIR");
  command->add_option("--memory-gb", forecast.memory_gb, "Sizes of the process, e.g. 6,9,14")
      ->required()
      ->delimiter(',');
  command->add_option("--disk-gb-s", forecast.disk_gb_s,
                      "Imitate a disk no faster than this (default: as fast as it is)");
  command->add_option("--prompt", forecast.prompt, "Tokens of the prefill; 0: none")
      ->capture_default_str();
  command->add_option("--pass", forecast.pass, "Tokens of a pass")->capture_default_str();
  command->add_option("--decode", forecast.decode, "Tokens of a round")->capture_default_str();
  command->add_option("--warm", forecast.warm, "Tokens before the first round")
      ->capture_default_str();
  command->callback([&] { action = [&] { return MeasureForecast(forecast); }; });

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  try {
    const Result<std::vector<Row>> rows = action();
    const Status status = rows ? Print(*rows, output) : std::unexpected(rows.error());
    if (status) return 0;
    fmt::print(stderr, "slotstream-bench: {}\n", status.error().message);
  } catch (const std::exception& error) {
    // The library's own errors are values; what arrives here is memory that could not be had.
    fmt::print(stderr, "slotstream-bench: {}\n", error.what());
  }
  return kExitFailure;
}

}  // namespace
}  // namespace slotstream::bench

int main(int argc, char** argv) { return slotstream::bench::Main(argc, argv); }
