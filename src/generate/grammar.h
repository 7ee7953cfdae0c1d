// What a constrained reply may look like: a graph of nodes that a byte machine runs
// (generate/grammar_machine.h). Counts, bounds and the members that an object has already are kept
// by the machine and never expanded into nodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "generate/number_rules.h"
#include "generate/pattern.h"
#include "generate/text_scanner.h"

namespace slotstream::generate {

using NodeId = uint32_t;
inline constexpr NodeId kNoNode = UINT32_MAX;
inline constexpr uint64_t kUnbounded = std::numeric_limits<uint64_t>::max();

// Objects and lists within one another; a bound that parsers of replies share.
inline constexpr uint32_t kDeepestReply = 64;
// Nodes of a grammar, and words of one node: what a hostile schema can make us keep.
inline constexpr size_t kMostNodes = 20'000, kMostWords = 20'000;

// One of `words` (sorted, distinct); then, where `next` is not empty, what belongs to it.
struct WordsNode {
  std::vector<std::string> words;
  std::vector<NodeId> next;
};
// A control token by its text; in a vocabulary without it, its bytes.
struct TagNode {
  std::string text;
};
// One after another; none: nothing.
struct SequenceNode {
  std::vector<NodeId> parts;
};
// Any of them; none: impossible.
struct ChoiceNode {
  std::vector<NodeId> ways;
};
// Free text with its end, of `min` to `max` characters; or of those that fit a pattern.
struct TextNode {
  TextForm form = TextForm::kJson;
  uint64_t min = 0, max = kUnbounded;
  std::shared_ptr<const Pattern> pattern = nullptr;
};
struct NumberNode {
  NumberRules rules;
};
// Nothing, one space, or a line break with an indentation: white space that can't go on for ever.
struct GapNode {};
struct ArrayNode {
  std::vector<NodeId> prefix;
  NodeId rest = kNoNode;  // of the elements behind the prefix; none: there are none
  uint64_t min = 0, max = kUnbounded;
};
// Members in any order, each once. As parameters of a tool call each is written as
// <parameter=KEY> and its value, which brings the end of its frame along.
struct ObjectNode {
  std::vector<std::string> keys;  // sorted, as written between the quotes
  std::vector<NodeId> values;     // of keys
  std::vector<bool> required;     // of keys
  NodeId additional = kNoNode;    // value of other members; none: there are none
  NodeId free_key = kNoNode;      // text of their names
  uint64_t min = 0, max = kUnbounded;
  bool parameters = false;
};

using Node = std::variant<WordsNode, TagNode, SequenceNode, ChoiceNode, TextNode, NumberNode,
                          GapNode, ArrayNode, ObjectNode>;

// Built by adding nodes, then finished; immutable from then on.
class Grammar {
 public:
  NodeId Add(Node node);
  // Replaces a node that was added as a placeholder, for what refers to itself.
  void Set(NodeId id, Node node) { nodes_[id] = std::move(node); }
  // Checks and measures everything. Errors: kInvalidArgument (nothing satisfies it, or not within
  // kDeepestReply; a choice that leads to itself).
  Status Finish(NodeId root);

  const Node& node(NodeId id) const { return nodes_[id]; }
  size_t size() const { return nodes_.size(); }
  // About what it takes in memory, patterns included.
  uint64_t bytes() const;
  NodeId root() const { return root_; }
  NodeId gap() const { return gap_; }
  // The fewest levels of objects and lists that the node needs; more than kDeepestReply: there is
  // no way to satisfy it.
  uint32_t height(NodeId id) const { return id == kNoNode ? kDeepestReply + 1 : heights_[id]; }

 private:
  uint32_t Measure(const Node& node) const;

  std::vector<Node> nodes_;
  std::vector<uint32_t> heights_;
  NodeId root_ = kNoNode, gap_ = kNoNode;
};

}  // namespace slotstream::generate
