#include "generate/grammar.h"

#include <algorithm>
#include <utility>

namespace slotstream::generate {
namespace {

constexpr uint32_t kImpossible = kDeepestReply + 1;

// Where a choice or a sequence can go without a byte: its ways, its first part.
std::vector<NodeId> WithoutByte(const Node& node) {
  if (const auto* choice = std::get_if<ChoiceNode>(&node)) return choice->ways;
  const auto* sequence = std::get_if<SequenceNode>(&node);
  if (sequence != nullptr && !sequence->parts.empty()) return {sequence->parts.front()};
  return {};
}

bool HasLoop(const std::vector<Node>& nodes) {
  enum class Mark : uint8_t { kNew, kOpen, kDone };
  std::vector<Mark> marks(nodes.size(), Mark::kNew);
  std::vector<std::pair<NodeId, std::vector<NodeId>>> path;  // a node, and where it still goes
  for (NodeId start = 0; start < nodes.size(); ++start) {
    if (marks[start] != Mark::kNew) continue;
    path.emplace_back(start, WithoutByte(nodes[start]));
    marks[start] = Mark::kOpen;
    while (!path.empty()) {
      auto& [id, ways] = path.back();
      if (ways.empty()) {
        marks[id] = Mark::kDone;
        path.pop_back();
        continue;
      }
      const NodeId way = ways.back();
      ways.pop_back();
      if (marks[way] == Mark::kOpen) return true;
      if (marks[way] == Mark::kDone) continue;
      marks[way] = Mark::kOpen;
      path.emplace_back(way, WithoutByte(nodes[way]));
    }
  }
  return false;
}

}  // namespace

NodeId Grammar::Add(Node node) {
  nodes_.push_back(std::move(node));
  return static_cast<NodeId>(nodes_.size() - 1);
}

uint64_t Grammar::bytes() const {
  // Nodes have lists of nodes besides; a pattern's state has ranges and ways.
  constexpr uint64_t of_node = 2 * sizeof(Node) + sizeof(uint32_t), of_state = 160, of_word = 64;
  uint64_t bytes = nodes_.size() * of_node;
  for (const Node& node : nodes_) {
    if (const auto* words = std::get_if<WordsNode>(&node)) {
      for (const std::string& word : words->words) bytes += of_word + word.size();
    } else if (const auto* object = std::get_if<ObjectNode>(&node)) {
      for (const std::string& key : object->keys) bytes += of_word + key.size();
    } else if (const auto* text = std::get_if<TextNode>(&node)) {
      if (text->pattern != nullptr) bytes += text->pattern->size() * of_state;
    }
  }
  return bytes;
}

uint32_t Grammar::Measure(const Node& node) const {
  const auto deepest = [this](const std::vector<NodeId>& ids, size_t count) {
    uint32_t result = 0;
    for (size_t i = 0; i < count; ++i) result = std::max(result, height(ids[i]));
    return result;
  };
  if (const auto* words = std::get_if<WordsNode>(&node)) {
    if (words->words.empty()) return kImpossible;
    uint32_t least = words->next.empty() ? 0 : kImpossible;
    for (NodeId id : words->next) least = std::min(least, height(id));
    return least;
  }
  if (const auto* sequence = std::get_if<SequenceNode>(&node)) {
    return deepest(sequence->parts, sequence->parts.size());
  }
  if (const auto* choice = std::get_if<ChoiceNode>(&node)) {
    uint32_t least = kImpossible;
    for (NodeId id : choice->ways) least = std::min(least, height(id));
    return least;
  }
  if (const auto* text = std::get_if<TextNode>(&node)) {
    if (text->pattern != nullptr) return text->pattern->possible() ? 0 : kImpossible;
    return text->min > text->max ? kImpossible : 0;
  }
  if (const auto* number = std::get_if<NumberNode>(&node)) {
    return HasNumber(number->rules) ? 0 : kImpossible;
  }
  if (const auto* array = std::get_if<ArrayNode>(&node)) {
    if (array->min > array->max) return kImpossible;
    uint32_t inner = deepest(array->prefix, std::min<uint64_t>(array->min, array->prefix.size()));
    if (array->min > array->prefix.size()) inner = std::max(inner, height(array->rest));
    return std::min(inner + 1, kImpossible);
  }
  if (const auto* object = std::get_if<ObjectNode>(&node)) {
    uint32_t inner = 0;
    uint64_t required = 0;
    std::vector<uint32_t> optional;
    for (size_t i = 0; i < object->keys.size(); ++i) {
      const uint32_t value = height(object->values[i]);
      if (object->required[i]) {
        ++required;
        inner = std::max(inner, value);
      } else {
        optional.push_back(value);
      }
    }
    if (required > object->max || object->min > object->max) return kImpossible;
    if (object->min > required) {
      // The shallowest of the others fill up to the fewest members; names that were not declared
      // may come twice, so they don't count.
      const uint64_t more = object->min - required;
      if (optional.size() < more) return kImpossible;
      const auto last = optional.begin() + static_cast<ptrdiff_t>(more - 1);
      std::nth_element(optional.begin(), last, optional.end());
      inner = std::max(inner, *last);
    }
    return std::min(inner + (object->parameters ? 0 : 1), kImpossible);
  }
  return 0;
}

Status Grammar::Finish(NodeId root) {
  root_ = root;
  gap_ = Add(GapNode{});
  if (HasLoop(nodes_)) {
    return Fail(ErrorCode::kInvalidArgument, "a $ref leads to itself without anything in between");
  }
  // The least solution from above: heights only fall, each sweep settles one level at least.
  heights_.assign(nodes_.size(), kImpossible);
  for (bool changed = true; changed;) {
    changed = false;
    for (NodeId id = 0; id < nodes_.size(); ++id) {
      const uint32_t measured = Measure(nodes_[id]);
      changed |= measured != std::exchange(heights_[id], measured);
    }
  }
  if (height(root) > kDeepestReply) {
    return Fail(ErrorCode::kInvalidArgument,
                "nothing satisfies it: it excludes every value, or needs itself within itself");
  }
  return {};
}

}  // namespace slotstream::generate
