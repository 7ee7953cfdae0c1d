#include "generate/class_trie.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace slotstream::generate {

// Collects the nodes in the order in which they are met, then brings all into preorder.
class ClassTrieMaker {
 public:
  ClassTrieMaker(const TokenTrie& trie, TextForm form, std::span<const char32_t> classes,
                 size_t most_nodes)
      : trie_(trie), form_(form), classes_(classes), most_nodes_(most_nodes), met_(1) {}

  bool Collect();
  std::shared_ptr<const ClassTrie> Arrange(size_t vocab_size);

 private:
  struct Met {
    char32_t character = 0;
    std::vector<uint32_t> children, tokens, exits;
    std::vector<ClassTrie::Cut> cuts;
  };
  uint32_t Child(uint32_t node, char32_t character);
  void Append(const Met& met, size_t vocab_size, ClassTrie& made);

  const TokenTrie& trie_;
  const TextForm form_;
  const std::span<const char32_t> classes_;
  const size_t most_nodes_;
  std::vector<Met> met_;
  std::unordered_map<uint64_t, uint32_t> children_;  // by parent and class
};

uint32_t ClassTrieMaker::Child(uint32_t node, char32_t character) {
  const auto behind = std::upper_bound(classes_.begin(), classes_.end(), character);
  const char32_t first = *(behind - 1);
  const auto [found, fresh] =
      children_.try_emplace(uint64_t{node} << 32 | first, static_cast<uint32_t>(met_.size()));
  if (fresh) {
    met_.emplace_back().character = first;
    met_[node].children.push_back(found->second);
  }
  return found->second;
}

bool ClassTrieMaker::Collect() {
  struct Level {
    uint32_t end, node;
    PatternTextState state;
  };
  using Kind = PatternTextStep::Kind;
  std::vector<Level> path = {{trie_.end(0), 0, {}}};
  for (uint32_t at = 1; at < trie_.size();) {
    while (at >= path.back().end) path.pop_back();
    Level level = path.back();
    level.end = trie_.end(at);
    const PatternTextStep step = ReadCharacter(form_, level.state, trie_.byte(at));
    if (step.kind == Kind::kReject || step.kind == Kind::kQuote) {
      if (step.kind == Kind::kQuote) met_[level.node].exits.push_back(at);
      at = level.end;
      continue;
    }
    if (step.kind == Kind::kCharacter) {
      level.node = Child(level.node, step.character);
      if (met_.size() > most_nodes_) return false;
      if (form_ == TextForm::kPlain && GoesOnBehindText(trie_, at)) {
        met_[level.node].exits.push_back(at);
      }
    }
    if (const uint32_t token = trie_.token(at); token != TokenTrie::kNoToken) {
      if (step.kind == Kind::kCharacter) {
        met_[level.node].tokens.push_back(token);
      } else {
        met_[level.node].cuts.push_back({token, level.state.bits, level.state.part});
      }
    }
    path.push_back(level);
    ++at;
  }
  return true;
}

void ClassTrieMaker::Append(const Met& met, size_t vocab_size, ClassTrie& made) {
  ClassTrie::Node node;
  node.character = met.character;
  node.tokens = static_cast<uint32_t>(made.tokens_.size());
  node.cuts = static_cast<uint32_t>(made.cuts_.size());
  node.exits = static_cast<uint32_t>(made.exits_.size());
  if (met.tokens.size() > vocab_size / 32) {  // a list would be larger than a mask
    node.many = static_cast<uint32_t>(made.many_.size());
    TokenMask& mask = made.many_.emplace_back(vocab_size);
    for (uint32_t token : met.tokens) mask.Set(token);
  } else {
    made.tokens_.insert(made.tokens_.end(), met.tokens.begin(), met.tokens.end());
  }
  made.cuts_.insert(made.cuts_.end(), met.cuts.begin(), met.cuts.end());
  made.exits_.insert(made.exits_.end(), met.exits.begin(), met.exits.end());
  made.nodes_.push_back(node);
}

std::shared_ptr<const ClassTrie> ClassTrieMaker::Arrange(size_t vocab_size) {
  auto made = std::make_shared<ClassTrie>();
  static_assert(sizeof(ClassTrie::Node) == ClassTrie::kNodeBytes);
  made->nodes_.reserve(met_.size() + 1);
  struct Open {
    uint32_t from, to;  // among met_, in preorder
    size_t child = 0;
  };
  Append(met_[0], vocab_size, *made);
  std::vector<Open> path = {{0, 0}};
  while (!path.empty()) {
    Open& open = path.back();
    if (open.child == met_[open.from].children.size()) {
      made->nodes_[open.to].end = static_cast<uint32_t>(made->nodes_.size());
      path.pop_back();
      continue;
    }
    const uint32_t child = met_[open.from].children[open.child++];
    path.push_back({child, static_cast<uint32_t>(made->nodes_.size())});
    Append(met_[child], vocab_size, *made);
  }
  Append({}, vocab_size, *made);
  made->tokens_.shrink_to_fit();
  made->cuts_.shrink_to_fit();
  made->exits_.shrink_to_fit();
  made->many_.shrink_to_fit();
  return made;
}

std::shared_ptr<const ClassTrie> ClassTrie::Make(const TokenTrie& trie, TextForm form,
                                                 std::span<const char32_t> classes,
                                                 size_t vocab_size, size_t most_nodes) {
  ClassTrieMaker maker(trie, form, classes, most_nodes);
  if (!maker.Collect()) return nullptr;
  return maker.Arrange(vocab_size);
}

void ClassTrie::Merge(uint32_t node, TokenMask& mask) const {
  if (nodes_[node].many != kFew) mask.Merge(many_[nodes_[node].many]);
  for (uint32_t i = nodes_[node].tokens; i < nodes_[node + 1].tokens; ++i) mask.Set(tokens_[i]);
}

bool GoesOnBehindText(const TokenTrie& trie, uint32_t node) {
  for (uint32_t child = node + 1; child < trie.end(node); child = trie.end(child)) {
    if (trie.byte(child) >= '\n') return trie.byte(child) == '\n';
  }
  return false;
}

}  // namespace slotstream::generate
