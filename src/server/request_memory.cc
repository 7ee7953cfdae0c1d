#include "server/request_memory.h"

#include <algorithm>
#include <string>
#include <vector>

#include "generate/constraint.h"
#include "text/json_text.h"

namespace slotstream::server {
namespace {

constexpr uint64_t kMiB = 1 << 20;

// A machine of 16 GB takes bodies of 8 MB. The least is ten times what agents send with a context
// of 32,768 tokens; the most, 24 MiB of picture in base64.
constexpr uint64_t kMemoryPerBodyByte = 2000;
constexpr uint64_t kLeastBody = 2 * kMiB, kMostBody = 32 * kMiB;
// A request of 131,072 tokens with the tools of an agent keeps less than a megabyte.
constexpr uint64_t kLeastKept = 16 * kMiB, kLeastUnsent = 8 * kMiB;

// To read a body takes, beside it, its texts as JSON and as messages, the rendered prompt and its
// ids: with a token each byte, the worst, 71 MiB were seen for a body of 7.
constexpr uint64_t kReadingFactor = 10;
// And its values, or the word of a megabyte that the tokenizer takes at most: 22 MiB were seen.
constexpr uint64_t kValues = 32 * kMiB;
// As much of those as a body of kLargeBody has.
constexpr uint64_t kSmallBody = 8 * kMiB;

// A value in a list or object that grew by doubling, with the C library's own 16 bytes a block.
uint64_t BytesOf(const text::OrderedJson& json) {
  constexpr uint64_t block = 16, element = 2 * sizeof(text::OrderedJson);
  uint64_t bytes = 0;
  if (json.is_string()) {
    bytes = block + sizeof(std::string) + block + json.get_ref<const std::string&>().capacity();
  } else if (json.is_array()) {
    bytes = 2 * block + sizeof(std::vector<int>);
    for (const auto& one : json) bytes += element + BytesOf(one);
  } else if (json.is_object()) {
    bytes = 2 * block + sizeof(std::vector<int>);
    for (const auto& [name, member] : json.items()) {
      bytes += element + 2 * sizeof(std::string) + name.size() + BytesOf(member);
    }
  }
  return bytes;
}

}  // namespace

uint64_t KeptBytes(const engine::Request& request) {
  uint64_t bytes = sizeof(request) + request.ids.size() * sizeof(uint32_t) +
                   request.reply_start.size() + request.notes.shared_ends.size() * sizeof(size_t);
  bytes += request.notes.replies.size() * sizeof(state::ReplyNote);
  for (const std::string& stop : request.sampling.stop) bytes += sizeof(stop) + stop.size();
  bytes += request.sampling.logit_bias.size() * sizeof(generate::TokenBias);
  if (request.chat) bytes += BytesOf(request.chat->tools);
  if (request.constraint != nullptr) bytes += request.constraint->grammar.bytes();
  return bytes;
}

void LimitRequests(uint64_t memory, ServerOptions& options) {
  const uint64_t body = std::clamp(memory / kMemoryPerBodyByte, kLeastBody, kMostBody);
  options.http.limits.body_bytes = body;
  options.http.limits.all_bodies_bytes = 2 * body;
  options.http.limits.all_unsent_bytes = std::max(kLeastUnsent, body);
  options.service.kept_bytes = std::max(kLeastKept, 2 * body);
}

uint64_t MostRequestBytes(const ServerOptions& options) {
  const HttpLimits& limits = options.http.limits;
  return limits.all_bodies_bytes + kReadingFactor * limits.body_bytes + kValues + kSmallBody +
         options.service.kept_bytes + limits.all_unsent_bytes;
}

}  // namespace slotstream::server
