// Which stored prefixes a prompt begins with: a radix tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace slotstream::state {

// What a place of a prompt is known by. A token is its id; a row of a picture is to be 63 bits of
// the picture's digest, another part of it for every row, with the highest bit set, so that prompts
// agree only where their pictures do.
using PrefixKey = uint64_t;

// Sequences of keys, each with an entry's id at its end. Not thread-safe.
class PrefixTree {
 public:
  using Id = uint64_t;

  PrefixTree();
  ~PrefixTree();

  // Puts `id` at the end of `keys`, which has at least one. The id that was there is forgotten and
  // returned.
  std::optional<Id> Insert(std::span<const PrefixKey> keys, Id id);
  // Forgets an id that is there, and the part of its path that leads to no other.
  void Erase(Id id);

  struct Match {
    size_t common = 0;        // first keys that are also some entry's
    std::vector<Id> entries;  // whose keys are all among these, shortest first
  };
  Match Find(std::span<const PrefixKey> keys) const;

  size_t size() const { return nodes_.size(); }
  // Of an id that is there: its number of keys; that of the longest entry among its prefixes, or 0;
  // its keys.
  size_t Length(Id id) const;
  size_t LengthAbove(Id id) const;
  std::vector<PrefixKey> Keys(Id id) const;
  // Calls fn for every entry that `id` is a prefix of.
  void ForEachBelow(Id id, const std::function<void(Id)>& fn) const;

  // Memory of the keys.
  uint64_t bytes() const { return keys_ * sizeof(PrefixKey); }

 private:
  struct Node;

  Node* Split(Node* node, size_t at);
  void Tidy(Node* node);
  static void Below(const Node& node, const std::function<void(Id)>& fn);

  std::unique_ptr<Node> root_;
  std::unordered_map<Id, Node*> nodes_;
  uint64_t keys_ = 0;  // on all edges
};

}  // namespace slotstream::state
