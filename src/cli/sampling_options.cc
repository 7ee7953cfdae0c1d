#include "cli/sampling_options.h"

#include <random>

namespace slotstream::cli {

void AddSamplingOptions(CLI::App& command, SamplingOptions& options) {
  command.add_flag("--greedy", options.greedy, "Always the most likely token");
  command.add_flag("--think", options.think, "Let the model reason before it answers");
  command.add_option("--effort", options.effort, "With --think: low, medium or xhigh")
      ->check(CLI::IsMember({"low", "medium", "xhigh"}));
  command.add_option("--max-tokens", options.max_tokens,
                     "Longest reply; 0: all the room there is (default 512)");
  command.add_option("--seed", options.seed, "Seed of the random choices (default: random)");
  command.add_option("--temperature", options.temperature);
  command.add_option("--top-p", options.top_p);
  command.add_option("--top-k", options.top_k);
  command.add_option("--min-p", options.min_p);
  command.add_option("--presence-penalty", options.presence_penalty);
  command.add_option("--stop", options.stop, "Text that ends the reply; may be repeated");
}

generate::SamplingParams ToSamplingParams(const SamplingOptions& options, const CLI::App& command) {
  generate::SamplingParams params = generate::SamplingParams::Instruct();
  if (options.think) params = generate::SamplingParams::Thinking();
  if (options.greedy) params = generate::SamplingParams::Greedy();
  if (command.count("--max-tokens") > 0) params.max_tokens = options.max_tokens;
  if (command.count("--temperature") > 0) params.temperature = options.temperature;
  if (command.count("--top-p") > 0) params.top_p = options.top_p;
  if (command.count("--top-k") > 0) params.top_k = options.top_k;
  if (command.count("--min-p") > 0) params.min_p = options.min_p;
  if (command.count("--presence-penalty") > 0) params.presence_penalty = options.presence_penalty;
  if (command.count("--seed") > 0) {
    params.seed = options.seed;
  } else {
    std::random_device device;
    params.seed = uint64_t{device()} << 32 | device();
  }
  params.stop = options.stop;
  return params;
}

void ApplyThinking(const SamplingOptions& options, text::ChatRequest& chat) {
  chat.enable_thinking = options.think;
  if (!options.effort.empty()) chat.reasoning_effort = options.effort;
}

}  // namespace slotstream::cli
