#include "server/request_memory.h"

#include <string>
#include <vector>

#include "generate/constraint.h"
#include "text/json_text.h"

namespace slotstream::server {
namespace {

// To read a body takes, beside it, its values (JsonBudget), its texts as JSON and as messages, the
// rendered prompt and its ids: with the worst of bodies that tests/hostile_bodies_test.py has, so
// many bytes for each of theirs, and for its values.
constexpr uint64_t kReadingFactor = 8;
constexpr uint64_t kValues = 64 << 20;

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

uint64_t MostRequestBytes(const HttpLimits& limits) {
  const uint64_t large = limits.body_bytes, small = kLargeBody;
  return limits.all_bodies_bytes + kReadingFactor * (large + small) + 2 * kValues + kMostKeptBytes +
         ResponseStream::kMostAllUnsent;
}

}  // namespace slotstream::server
