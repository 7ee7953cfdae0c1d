// Sampling as requests state it, in the names that the dialects share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "generate/sampling_params.h"
#include "server/json_fields.h"

namespace slotstream::server {

// The defaults for a kind of request.
generate::SamplingParams DefaultSampling(bool thinking, bool tools);

// temperature, top_p, top_k, min_p, seed (negative: random), presence_penalty, frequency_penalty,
// logit_bias ({"id": -100 to 100}), and the repeat penalty under its two names: repetition_penalty
// (Hugging Face's and vLLM's) looks at all tokens, repeat_penalty (Ollama's and llama.cpp's) at the
// last repeat_last_n.
void ReadSampling(Fields& fields, generate::SamplingParams& params);

// The number of alternatives that "logprobs": true and "top_logprobs": 0 to 20 ask for.
void ReadLogProbs(Fields& fields, std::optional<size_t>& alternatives);

// `name`: the most tokens of the reply, at least 1.
void ReadMaxTokens(Fields& fields, const char* name, generate::SamplingParams& params);

// max_tokens of a request that names no limit. Long enough for what people ask; with reasoning
// the most that a request may have. The context bounds it anyway.
int64_t DefaultReplyTokens(bool thinking);

}  // namespace slotstream::server
