// `slotstream synth`: a packed checkpoint of random weights, for measurements without a model.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "base/clock.h"
#include "checkpoint/config.h"
#include "checkpoint/geometry.h"
#include "checkpoint/synth_writer.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "io/file.h"
#include "plan/plan.h"
#include "text/synthetic_tokenizer.h"
#include "text/tokenizer.h"

namespace slotstream::cli {
namespace {

constexpr size_t kMaxConfigBytes = size_t{1} << 20;
constexpr size_t kMaxTokenizerBytes = size_t{64} << 20;

struct SynthFlags {
  std::string geometry, tokenizer, destination;
  uint32_t layers = 0;  // 0: all
  checkpoint::SynthOptions options;
};

using SideFiles = std::map<std::string, std::string>;

// The files of another checkpoint's tokenizer, whose ids must fit.
Result<SideFiles> CopyTokenizer(const std::string& directory,
                                const checkpoint::ModelConfig& config) {
  SideFiles out;
  const std::string path = directory + "/tokenizer.json";
  SS_ASSIGN_OR_RETURN(out["tokenizer.json"], io::ReadWholeFile(path, kMaxTokenizerBytes));
  SS_ASSIGN_OR_RETURN(const text::Tokenizer tokenizer,
                      text::Tokenizer::FromJson(out["tokenizer.json"], path));
  if (tokenizer.vocab_size() > config.vocab_size) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} has {} ids, the geometry a vocabulary of {}", path,
                            tokenizer.vocab_size(), config.vocab_size));
  }
  const std::string generation = directory + "/generation_config.json";
  if (std::filesystem::exists(generation)) {
    SS_ASSIGN_OR_RETURN(out["generation_config.json"],
                        io::ReadWholeFile(generation, kMaxConfigBytes));
  }
  return out;
}

Result<SideFiles> MakeTokenizer(const checkpoint::ModelConfig& config) {
  auto made =
      text::MakeSyntheticTokenizer(config.vocab_size, {.end_of_text = config.eos_token_id,
                                                       .vision_start = config.vision_start_token_id,
                                                       .vision_end = config.vision_end_token_id,
                                                       .image_pad = config.image_token_id,
                                                       .video_pad = config.video_token_id});
  if (!made) {
    fmt::print(stderr, "note: {}; the checkpoint takes token ids only\n", made.error().message);
    return SideFiles{};
  }
  return SideFiles{{"tokenizer.json", std::move(made->tokenizer_json)},
                   {"generation_config.json", std::move(made->generation_config_json)}};
}

// A measurement asks for so many tokens; random weights should not end it early.
Status KeepRepliesGoing(const checkpoint::ModelConfig& config, checkpoint::SynthOptions& options) {
  options.quiet_ids.push_back(config.eos_token_id);
  const auto file = options.side_files.find("generation_config.json");
  if (file == options.side_files.end()) return {};
  SS_ASSIGN_OR_RETURN(const checkpoint::GenerationConfig generation,
                      checkpoint::ParseGenerationConfig(file->second, file->first));
  options.quiet_ids.insert(options.quiet_ids.end(), generation.eos_token_ids.begin(),
                           generation.eos_token_ids.end());
  return {};
}

Status ReadGeometry(SynthFlags& flags) {
  checkpoint::SynthOptions& options = flags.options;
  if (flags.geometry == "true") {
    options.config_name = "the true geometry";
    options.config = checkpoint::PublishedGeometry();
  } else {
    options.config_name = flags.geometry;
    SS_ASSIGN_OR_RETURN(options.config, io::ReadWholeFile(flags.geometry, kMaxConfigBytes));
  }
  if (flags.layers == 0) return {};
  SS_ASSIGN_OR_RETURN(options.config,
                      checkpoint::WithLayers(options.config, options.config_name, flags.layers));
  return {};
}

Result<int> Synth(SynthFlags flags) {
  SS_RETURN_IF_ERROR(ReadGeometry(flags));
  checkpoint::SynthOptions& options = flags.options;
  SS_ASSIGN_OR_RETURN(const checkpoint::ModelConfig config,
                      checkpoint::ParseConfig(options.config, options.config_name));
  SS_ASSIGN_OR_RETURN(options.side_files, flags.tokenizer.empty()
                                              ? MakeTokenizer(config)
                                              : CopyTokenizer(flags.tokenizer, config));
  SS_RETURN_IF_ERROR(KeepRepliesGoing(config, options));
  options.threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  InterruptScope interrupt;
  options.cancel = &interrupt.flag();
  PhaseBars bars;
  options.progress = [&](std::string_view phase, uint64_t done, uint64_t total) {
    bars.Update(phase, done, total);
  };
  const uint64_t start = Clock::Steady().NowNanos();
  auto summary = checkpoint::Synthesize(flags.destination, options);
  bars.Finish();
  if (!summary) {
    if (summary.error().code == ErrorCode::kCancelled) return kExitInterrupted;
    return std::unexpected(std::move(summary).error());
  }
  const double seconds = static_cast<double>(Clock::Steady().NowNanos() - start) / 1e9;
  fmt::print("{}: {} of random weights in {:.1f} s, {} of {} expert records stored\n",
             flags.destination, plan::FormatBytes(summary->bytes), seconds, summary->stored_records,
             summary->records);
  return 0;
}

}  // namespace

void AddSynthCommand(CLI::App& app, Action& action) {
  auto flags = std::make_shared<SynthFlags>();
  CLI::App* command = app.add_subcommand(
      "synth", "Write a packed checkpoint of random weights, to measure without a model");
  command
      ->add_option("--geometry", flags->geometry,
                   "true, the published model's sizes, or a config.json")
      ->required()
      ->type_name("true|FILE");
  command->add_option("--layers", flags->layers, "Only the geometry's first layers")
      ->check(CLI::PositiveNumber);
  command->add_option("--seed", flags->options.seed, "Decides the weights")->capture_default_str();
  command
      ->add_option("--fold", flags->options.fold,
                   "Store one of so many expert records and n-gram pages; reads stay as they are, "
                   "contents repeat")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_option("--skew", flags->options.skew,
                   "How much popularity and repetition count among experts: 1 as published, 0 none")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command
      ->add_option("--tokenizer", flags->tokenizer,
                   "Take the tokenizer of this checkpoint (default: one token per byte)")
      ->type_name("DIR");
  command->add_flag("--draft", flags->options.draft, "Write the draft head too");
  command->add_flag("--vision", flags->options.vision, "Write the vision tower too");
  command->add_option("DST", flags->destination, "New directory")->required();
  command->callback([flags, &action] { action = [flags] { return Synth(*flags); }; });
}

}  // namespace slotstream::cli
