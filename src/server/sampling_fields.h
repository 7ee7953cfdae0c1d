// Sampling as requests state it, in the names that the dialects share.
#pragma once

#include <cstdint>
#include <optional>

#include "generate/sampling_params.h"
#include "server/json_fields.h"

namespace slotstream::server {

// The defaults for a kind of request.
generate::SamplingParams DefaultSampling(bool thinking, bool tools);

// temperature, top_p, top_k, min_p, presence_penalty, seed (negative: random).
void ReadSampling(Fields& fields, generate::SamplingParams& params);

// `name`: the most tokens of the reply, at least 1.
void ReadMaxTokens(Fields& fields, const char* name, generate::SamplingParams& params);

// max_tokens of a request that names no limit. Long enough for what people ask; with reasoning
// the most that a request may have. The context bounds it anyway.
int64_t DefaultReplyTokens(bool thinking);

}  // namespace slotstream::server
