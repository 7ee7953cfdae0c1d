#include "text/added_tokens.h"

#include <algorithm>

namespace slotstream::text {
namespace {

// Whether [begin, end) touches a range; `ranges` are sorted and apart.
bool Touches(std::span<const TextRange> ranges, size_t begin, size_t end) {
  auto after = std::upper_bound(ranges.begin(), ranges.end(), begin,
                                [](size_t at, const TextRange& range) { return at < range.end; });
  return after != ranges.end() && after->begin < end;
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(const std::vector<AddedToken>& tokens) : nodes_(1) {
  for (const AddedToken& token : tokens) {
    uint32_t node = 0;
    for (char byte : token.content) {
      const uint32_t child = Child(node, byte);
      node = child == kNone ? AddChild(node, byte) : child;
    }
    nodes_[node].id = token.id;
  }
  for (size_t byte = 0; byte < first_node_.size(); ++byte) {
    first_node_[byte] = Child(0, static_cast<char>(byte));
  }
}

uint32_t AddedTokenMatcher::Child(uint32_t node, char byte) const {
  uint32_t child = nodes_[node].first_child;
  while (child != kNone && nodes_[child].byte != byte) child = nodes_[child].next_sibling;
  return child;
}

uint32_t AddedTokenMatcher::AddChild(uint32_t node, char byte) {
  const auto child = static_cast<uint32_t>(nodes_.size());
  nodes_.push_back({kNone, nodes_[node].first_child, kNone, byte});
  nodes_[node].first_child = child;
  return child;
}

std::optional<AddedTokenMatch> AddedTokenMatcher::Find(std::string_view text, size_t from,
                                                       std::span<const TextRange> literal) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    uint32_t node = first_node_[static_cast<uint8_t>(text[begin])];
    if (node == kNone) continue;
    std::optional<AddedTokenMatch> longest;
    for (size_t end = begin + 1; node != kNone; ++end) {
      if (nodes_[node].id != kNone && !Touches(literal, begin, end)) {
        longest = AddedTokenMatch{{begin, end}, nodes_[node].id};
      }
      node = end < text.size() ? Child(node, text[end]) : kNone;
    }
    if (longest) return longest;
  }
  return std::nullopt;
}

}  // namespace slotstream::text
