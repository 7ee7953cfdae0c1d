#include "cli/model_options.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "cli/progress.h"
#include "cli/user_directories.h"

namespace slotstream::cli {
namespace {

// Beyond any machine; keeps the conversion to bytes exact.
constexpr double kMaxMemoryGb = 1e6;

}  // namespace

void AddModelOptions(CLI::App& command, ModelOptions& options) {
  command.add_option("--model", options.directory, "Checkpoint directory, original or packed")
      ->required()
      ->type_name("DIR");
  command
      .add_option("--mirror", options.mirror, "A copy of the model on another disk, to read both")
      ->type_name("DIR");
  command.add_option("--slots", options.slots, "Expert slots in memory (default: what fits)")
      ->check(CLI::PositiveNumber);
  command.add_option("--memory-gb", options.memory_gb,
                     "Memory of the whole process, decimal GB (default: from what is available)");
  command.add_option("--pass", options.pass_rows, "Tokens per prefill pass")
      ->check(CLI::PositiveNumber);
  command.add_option("--max-context", options.max_context, "Tokens of prompt and reply together")
      ->check(CLI::PositiveNumber);
  command.add_flag("--fixed", options.fixed,
                   "Keep the planned sizes, however scarce memory becomes (default: caches shrink "
                   "while others need memory, and grow back)");
  command.add_option("--threads", options.threads, "Threads of computation (default: all cores)")
      ->check(CLI::PositiveNumber);
  command.add_option("--io", options.io, "How to read: auto, uring or threads")
      ->check(CLI::IsMember({"auto", "uring", "threads"}))
      ->capture_default_str();
  command.add_option("--isa", options.isa, "Kernels: auto, or a name that `version` lists")
      ->capture_default_str();
  command
      .add_option("--compute", options.compute,
                  "How activations meet 4-bit weights: exact (float32), int15 or int8")
      ->capture_default_str();
}

void PrintNote(std::string_view note) { fmt::print(stderr, "note: {}\n", note); }

Result<engine::LoadOptions> ToLoadOptions(const ModelOptions& options, const CLI::App& command) {
  engine::LoadOptions load;
  load.directory = options.directory;
  load.mirror = options.mirror;
  load.kernels = options.isa;
  load.registry_directory = EngineDirectory();
  load.wishes.fixed = options.fixed;
  SS_ASSIGN_OR_RETURN(load.wishes.compute, kernels::ParseComputeMode(options.compute));
  if (options.io == "uring") load.io = io::BackendKind::kUring;
  if (options.io == "threads") load.io = io::BackendKind::kThreads;
  if (command.count("--slots") > 0) load.wishes.slots = options.slots;
  if (command.count("--pass") > 0) load.wishes.pass_rows = options.pass_rows;
  if (options.max_context > 0) load.wishes.max_context = options.max_context;
  if (command.count("--threads") > 0) load.wishes.threads = options.threads;
  if (command.count("--memory-gb") > 0) {
    if (!(options.memory_gb > 0 && options.memory_gb < kMaxMemoryGb)) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("--memory-gb {} is not an amount of memory", options.memory_gb));
    }
    load.wishes.memory_bytes = static_cast<uint64_t>(std::llround(options.memory_gb * 1e9));
  }
  return load;
}

Result<std::unique_ptr<engine::LoadedModel>> LoadModel(const ModelOptions& options,
                                                       const CLI::App& command,
                                                       experts::TraceWriter* trace) {
  SS_ASSIGN_OR_RETURN(engine::LoadOptions load, ToLoadOptions(options, command));
  load.trace = trace;
  return LoadModel(load);
}

Result<std::unique_ptr<engine::LoadedModel>> LoadModel(const engine::LoadOptions& load) {
  ProgressBar bar("loading");
  std::vector<std::string> notes;
  auto model = engine::LoadedModel::Load(
      load, [&](uint64_t done, uint64_t total) { bar.Update(done, total); }, notes);
  bar.Finish();
  if (!model) return model;
  for (const std::string& note : notes) PrintNote(note);
  fmt::print(stderr, "plan: {}; {} threads, {} kernels, {} products, {} reads\n",
             (*model)->plan().Summary(), (*model)->plan().threads, (*model)->kernels().name,
             kernels::NameOf((*model)->plan().compute), (*model)->io_name());
  return model;
}

}  // namespace slotstream::cli
