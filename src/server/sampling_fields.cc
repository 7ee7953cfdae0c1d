#include "server/sampling_fields.h"

namespace slotstream::server {

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
  if (const auto top_k = fields.Integer("top_k")) params.top_k = *top_k;
  if (const auto seed = fields.Integer("seed"); seed && *seed >= 0) {
    params.seed = static_cast<uint64_t>(*seed);
  }
}

}  // namespace slotstream::server
