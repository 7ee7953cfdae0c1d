// `slotstream quality`: how much a compute mode changes what the model says.

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/version.h"
#include "cli/commands.h"
#include "cli/inputs.h"
#include "cli/interrupt.h"
#include "cli/model_options.h"
#include "cli/progress.h"
#include "engine/quality.h"

namespace slotstream::cli {
namespace {

// The share of positions that a printed tail divergence bounds.
constexpr double kTail = 0.99;

struct QualityFlags {
  ModelOptions model;
  std::string text;
  std::string against = std::string(kernels::NameOf(kernels::ComputeMode::kExact));
  bool json = false;
};

Result<engine::QualityOptions> ToQualityOptions(const QualityFlags& flags,
                                                const CLI::App& command) {
  engine::QualityOptions options;
  options.window = flags.model.max_context;
  SS_ASSIGN_OR_RETURN(options.against, kernels::ParseComputeMode(flags.against));
  if (command.count("--compute") > 0) {
    SS_ASSIGN_OR_RETURN(const kernels::ComputeMode mode,
                        kernels::ParseComputeMode(flags.model.compute));
    options.tried.push_back(mode);
    return options;
  }
  for (kernels::ComputeMode mode : kernels::kComputeModes) {
    if (mode != options.against) options.tried.push_back(mode);
  }
  return options;
}

void PrintTable(const engine::QualityReport& report, size_t tokens,
                const engine::QualityOptions& options) {
  fmt::print("{} tokens, windows of {}; KL divergence from {} in nats\n", tokens, options.window,
             kernels::NameOf(options.against));
  fmt::print("{:<6} {:>10} {:>10} {:>10} {:>11} {:>12}\n", "mode", "mean KL", "99% KL", "most KL",
             "same top-1", "perplexity");
  fmt::print("{:<6} {:>10} {:>10} {:>10} {:>11} {:>12.6f}\n", kernels::NameOf(options.against), "",
             "", "", "", report.perplexity.Value());
  for (const engine::ModeQuality& tried : report.tried) {
    const generate::Divergence& divergence = tried.divergence;
    fmt::print("{:<6} {:>10.3g} {:>10.3g} {:>10.3g} {:>10.3f}% {:>12.6f}\n",
               kernels::NameOf(tried.mode), divergence.MeanKl(), divergence.PercentileKl(kTail),
               divergence.PercentileKl(1), 100 * divergence.Top1Agreement(),
               tried.perplexity.Value());
  }
}

void PrintJson(const engine::QualityReport& report, size_t tokens,
               const engine::QualityOptions& options) {
  using Json = nlohmann::ordered_json;
  Json modes = Json::array();
  for (const engine::ModeQuality& tried : report.tried) {
    modes.push_back({{"mode", kernels::NameOf(tried.mode)},
                     {"mean_kl", tried.divergence.MeanKl()},
                     {"p99_kl", tried.divergence.PercentileKl(kTail)},
                     {"max_kl", tried.divergence.PercentileKl(1)},
                     {"top1_agreement", tried.divergence.Top1Agreement()},
                     {"perplexity", tried.perplexity.Value()}});
  }
  const Json json = {
      {"schema_version", 1},
      {"version", kVersion},
      {"tokens", tokens},
      {"windows", report.windows},
      {"context", options.window},
      {"against",
       {{"mode", kernels::NameOf(options.against)}, {"perplexity", report.perplexity.Value()}}},
      {"modes", modes}};
  fmt::print("{}\n", json.dump(2));
}

Result<int> Quality(const QualityFlags& flags, const CLI::App& command) {
  SS_ASSIGN_OR_RETURN(engine::QualityOptions options, ToQualityOptions(flags, command));
  SS_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(flags.text));
  if (text.empty()) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("the text {} is empty", flags.text));
  }
  SS_ASSIGN_OR_RETURN(engine::LoadOptions load, ToLoadOptions(flags.model, command));
  engine::AddQualityWishes(options, load.wishes);
  SS_ASSIGN_OR_RETURN(std::unique_ptr<engine::LoadedModel> loaded, LoadModel(load));
  SS_ASSIGN_OR_RETURN(const text::Tokenizer* tokenizer, loaded->tokenizer());
  SS_ASSIGN_OR_RETURN(const std::vector<uint32_t> ids, tokenizer->Encode(text));

  InterruptScope interrupt;
  ProgressBar bar("reading the text");
  options.cancel = &interrupt.flag();
  options.progress = [&](size_t done, size_t total) { bar.Update(done, total); };
  auto report = engine::MeasureQuality(*loaded, ids, options);
  bar.Finish();
  if (!report) {
    if (report.error().code == ErrorCode::kCancelled) return kExitInterrupted;
    return Fail(report.error().code, fmt::format("{}: {}", flags.text, report.error().message));
  }
  (flags.json ? PrintJson : PrintTable)(*report, ids.size(), options);
  return 0;
}

}  // namespace

void AddQualityCommand(CLI::App& app, Action& action) {
  auto flags = std::make_shared<QualityFlags>();
  CLI::App* command = app.add_subcommand(
      "quality", "Measure over a text how much a compute mode changes what the model says");
  AddModelOptions(*command, flags->model);
  command->get_option("--compute")
      ->description("The mode to measure (default: all but that of --against)")
      ->default_str("");
  // A window is a sequence of its own, so its length is the context.
  command->remove_option(command->get_option("--max-context"));
  flags->model.max_context = engine::kQualityWindow;
  command
      ->add_option("--context", flags->model.max_context,
                   "The text is cut into windows of so many tokens, each read on its own")
      ->check(CLI::Range(2u, UINT32_MAX))
      ->capture_default_str();
  command
      ->add_option("--text", flags->text,
                   "File with the text, control tokens as they are written; - is standard input")
      ->required()
      ->type_name("FILE");
  command->add_option("--against", flags->against, "The mode to compare with")
      ->capture_default_str();
  command->add_flag("--json", flags->json, "Print a JSON object");
  command->callback([flags, command, &action] {
    action = [flags, command] { return Quality(*flags, *command); };
  });
}

}  // namespace slotstream::cli
