// `slotstream run`: one prompt, one reply.

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/inputs.h"
#include "cli/interrupt.h"
#include "cli/model_options.h"
#include "cli/progress.h"
#include "cli/reply_printer.h"
#include "cli/run_stats.h"
#include "cli/sampling_options.h"
#include "engine/engine.h"

namespace slotstream::cli {
namespace {

// Shorter prompts are read before a bar would be looked at.
constexpr size_t kProgressTokens = 2048;

struct RunOptions {
  ModelOptions model;
  SamplingOptions sampling;
  std::string prompt, prompt_file, ids, system, stats_json, trace;
  bool raw = false;
};

Result<engine::Request> MakeRequest(const RunOptions& options, const CLI::App& command) {
  engine::Request request;
  request.sampling = ToSamplingParams(options.sampling, command);
  if (!options.ids.empty()) {
    SS_ASSIGN_OR_RETURN(request.ids, ParseIds(options.ids));
    request.opens_thinking = options.sampling.think;
    return request;
  }
  std::string prompt = options.prompt;
  if (command.count("--prompt") == 0) {
    const bool piped = isatty(STDIN_FILENO) == 0;
    if (options.prompt_file.empty() && !piped) {
      return Fail(ErrorCode::kInvalidArgument,
                  "no prompt: give --prompt TEXT, --prompt-file FILE or pipe one in");
    }
    SS_ASSIGN_OR_RETURN(prompt,
                        ReadTextFile(options.prompt_file.empty() ? "-" : options.prompt_file));
  }
  if (options.raw) {
    request.text = std::move(prompt);
    request.opens_thinking = options.sampling.think;
    return request;
  }
  text::ChatRequest chat;
  ApplyThinking(options.sampling, chat);
  const auto add = [&chat](text::Role role, std::string content) {
    text::ChatMessage message;
    message.role = role;
    message.content.push_back({text::ContentItem::Kind::kText, std::move(content)});
    chat.messages.push_back(std::move(message));
  };
  if (!options.system.empty()) add(text::Role::kSystem, options.system);
  add(text::Role::kUser, std::move(prompt));
  request.chat = std::move(chat);
  return request;
}

// Waits for the job; an interrupt cancels it.
Result<generate::GenerationResult> WaitFor(engine::Job& job, InterruptScope& interrupt) {
  while (!job.WaitForMillis(50)) {
    if (interrupt.interrupted()) job.Cancel();
  }
  return job.Wait();
}

Result<int> Run(const RunOptions& options, const CLI::App& command) {
  SS_ASSIGN_OR_RETURN(engine::Request request, MakeRequest(options, command));
  const uint64_t seed = request.sampling.seed.value_or(0);
  std::unique_ptr<experts::TraceWriter> trace;
  if (!options.trace.empty()) {
    SS_ASSIGN_OR_RETURN(trace, experts::TraceWriter::Create(options.trace));
  }
  SS_ASSIGN_OR_RETURN(std::unique_ptr<engine::LoadedModel> loaded,
                      LoadModel(options.model, command, trace.get()));
  engine::Engine engine(std::move(loaded), {.log = PrintNote});

  InterruptScope interrupt;
  ProgressBar bar("reading the prompt");
  ReplyPrinter printer(ReplyPrinter::Reasoning::kStderr);
  std::vector<uint32_t> prompt_ids;
  engine::RequestObserver observer;
  observer.on_start = [&](const std::vector<uint32_t>& prompt) { prompt_ids = prompt; };
  observer.generation.on_prefill = [&](size_t done, size_t total) {
    if (total >= kProgressTokens) bar.Update(done, total);
    if (done == total) bar.Finish();
  };
  observer.generation.on_event = [&](const generate::ReplyEvent& event) { printer.Print(event); };

  auto job = engine.Submit(std::move(request), observer);
  auto result = WaitFor(*job, interrupt);
  bar.Finish();
  printer.Finish();
  // Of a run that failed or was interrupted too.
  const Status traced = trace ? trace->Finish() : Status();
  if (!result) {
    if (result.error().code == ErrorCode::kCancelled) return kExitInterrupted;
    return std::unexpected(std::move(result).error());
  }
  const RunReport report{engine.loaded(), *result, prompt_ids, printer, seed};
  fmt::print(stderr, "{}\n", FormatSummary(report));
  if (!options.stats_json.empty()) SS_RETURN_IF_ERROR(WriteStatsJson(report, options.stats_json));
  SS_RETURN_IF_ERROR(traced);
  return 0;
}

}  // namespace

void AddRunCommand(CLI::App& app, Action& action) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("run", "Answer one prompt");
  AddModelOptions(*command, options->model);
  CLI::Option* prompt = command->add_option("--prompt", options->prompt, "The prompt");
  CLI::Option* file = command->add_option("--prompt-file", options->prompt_file,
                                          "File with the prompt; - is standard input");
  CLI::Option* ids =
      command->add_option("--ids", options->ids, "The prompt as token ids, taken as they are");
  prompt->excludes(file)->excludes(ids);
  file->excludes(ids);
  command->add_option("--system", options->system, "System message");
  command->add_flag("--raw", options->raw, "Give the prompt to the model without chat template");
  AddSamplingOptions(*command, options->sampling);
  command->add_option("--stats-json", options->stats_json, "Write ids, text and statistics here")
      ->type_name("FILE");
  command
      ->add_option("--trace", options->trace,
                   "Record here which tokens go to which experts; `replay` reads it")
      ->type_name("FILE");
  command->callback([options, command, &action] {
    action = [options, command] { return Run(*options, *command); };
  });
}

}  // namespace slotstream::cli
