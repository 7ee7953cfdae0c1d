#include "server/sampling_fields.h"

#include <fmt/format.h>

#include <charconv>
#include <string>

#include "generate/generator.h"

namespace slotstream::server {
namespace {

// Ollama's and llama.cpp's.
constexpr int64_t kDefaultRepeatLastN = 64;
// OpenAI's; beyond it a token is banned or forced anyway.
constexpr double kMostBias = 100;

void ReadLogitBias(Fields& fields, generate::SamplingParams& params) {
  const Json* biases = fields.Object("logit_bias");
  if (biases == nullptr) return;
  for (const auto& [key, value] : biases->items()) {
    generate::TokenBias bias;
    const char* end = key.data() + key.size();
    const auto [stop, error] = std::from_chars(key.data(), end, bias.id);
    if (error != std::errc() || stop != end) {
      return fields.Refuse("logit_bias", fmt::format("{:?} is no token id", key));
    }
    const double number = value.is_number() ? value.get<double>() : kMostBias + 1;
    if (!(number >= -kMostBias && number <= kMostBias)) {
      return fields.Refuse("logit_bias",
                           fmt::format("the bias of {} is no number from -100 to 100", key));
    }
    bias.bias = static_cast<float>(number);
    params.logit_bias.push_back(bias);
  }
}

}  // namespace

generate::SamplingParams DefaultSampling(bool thinking, bool tools) {
  generate::SamplingParams params = generate::SamplingParams::Instruct();
  if (thinking) params = generate::SamplingParams::Thinking();
  if (tools) params = generate::SamplingParams::Agent();
  params.max_tokens = DefaultReplyTokens(thinking);
  return params;
}

int64_t DefaultReplyTokens(bool thinking) { return thinking ? generate::kMaxTokensCeiling : 8192; }

void ReadMaxTokens(Fields& fields, const char* name, generate::SamplingParams& params) {
  const auto most = fields.Integer(name);
  if (!most) return;
  if (*most < 1) fields.Refuse(name, "less than 1");
  params.max_tokens = *most;
}

void ReadSampling(Fields& fields, generate::SamplingParams& params) {
  const auto read = [&fields](const char* name, float& value) {
    if (const auto number = fields.Number(name)) value = static_cast<float>(*number);
  };
  read("temperature", params.temperature);
  read("top_p", params.top_p);
  read("min_p", params.min_p);
  read("presence_penalty", params.presence_penalty);
  read("frequency_penalty", params.frequency_penalty);
  read("repetition_penalty", params.repeat_penalty);
  if (fields.Get("repeat_penalty") != nullptr) {
    read("repeat_penalty", params.repeat_penalty);
    params.repeat_last_n = kDefaultRepeatLastN;
  }
  if (const auto last = fields.Integer("repeat_last_n")) params.repeat_last_n = *last;
  ReadLogitBias(fields, params);
  if (const auto top_k = fields.Integer("top_k")) params.top_k = *top_k;
  if (const auto seed = fields.Integer("seed"); seed && *seed >= 0) {
    params.seed = static_cast<uint64_t>(*seed);
  }
}

void ReadLogProbs(Fields& fields, std::optional<size_t>& alternatives) {
  const bool wanted = fields.Bool("logprobs").value_or(false);
  const int64_t top = fields.Integer("top_logprobs").value_or(0);
  if (top < 0 || top > static_cast<int64_t>(generate::kMostAlternatives)) {
    fields.Refuse("top_logprobs", fmt::format("not from 0 to {}", generate::kMostAlternatives));
  } else if (wanted) {
    alternatives = static_cast<size_t>(top);
  }
}

}  // namespace slotstream::server
