// Flags of sampling and thinking, shared by run and chat.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "generate/sampling_params.h"
#include "text/chat_request.h"

namespace slotstream::cli {

struct SamplingOptions {
  bool greedy = false;
  bool think = false;
  std::string effort;
  int64_t max_tokens = 0;
  uint64_t seed = 0;
  float temperature = 0, top_p = 0, min_p = 0, presence_penalty = 0;
  int64_t top_k = 0;
  std::vector<std::string> stop;
};

void AddSamplingOptions(CLI::App& command, SamplingOptions& options);

// The profile (greedy, thinking or plain) with what the user set; without --seed a random one,
// drawn here and nowhere below.
generate::SamplingParams ToSamplingParams(const SamplingOptions& options, const CLI::App& command);

// Thinking and effort as the user set them.
void ApplyThinking(const SamplingOptions& options, text::ChatRequest& chat);

}  // namespace slotstream::cli
