#include "state/prefix_tree.h"

#include <algorithm>
#include <utility>

namespace slotstream::state {

struct PrefixTree::Node {
  std::vector<PrefixKey> edge;  // from the parent; empty for the root alone
  Node* parent = nullptr;
  size_t length = 0;  // of the whole path
  std::optional<Id> id;
  std::map<PrefixKey, std::unique_ptr<Node>> children;  // by their edges' first keys
};

PrefixTree::PrefixTree() : root_(std::make_unique<Node>()) {}
PrefixTree::~PrefixTree() = default;

std::optional<PrefixTree::Id> PrefixTree::Insert(std::span<const PrefixKey> keys, Id id) {
  Node* node = root_.get();
  while (node->length < keys.size()) {
    const std::span<const PrefixKey> rest = keys.subspan(node->length);
    const auto child = node->children.find(rest[0]);
    if (child == node->children.end()) {
      auto leaf = std::make_unique<Node>();
      leaf->edge.assign(rest.begin(), rest.end());
      leaf->parent = node;
      leaf->length = keys.size();
      keys_ += rest.size();
      node = (node->children[rest[0]] = std::move(leaf)).get();
      break;
    }
    Node* next = child->second.get();
    const auto differ = std::ranges::mismatch(next->edge, rest).in1;
    node = differ == next->edge.end()
               ? next
               : Split(next, static_cast<size_t>(differ - next->edge.begin()));
  }
  std::optional<Id> old = std::exchange(node->id, id);
  if (old) nodes_.erase(*old);
  nodes_[id] = node;
  return old;
}

// Cuts the edge to `node` after `at` keys; returns the node between.
PrefixTree::Node* PrefixTree::Split(Node* node, size_t at) {
  auto middle = std::make_unique<Node>();
  const auto cut = node->edge.begin() + static_cast<ptrdiff_t>(at);
  middle->edge.assign(node->edge.begin(), cut);
  middle->parent = node->parent;
  middle->length = node->length - (node->edge.size() - at);
  node->edge.erase(node->edge.begin(), cut);
  node->parent = middle.get();
  std::unique_ptr<Node>& place = middle->parent->children[middle->edge[0]];
  middle->children[node->edge[0]] = std::move(place);
  place = std::move(middle);
  return place.get();
}

void PrefixTree::Erase(Id id) {
  const auto found = nodes_.find(id);
  Node* node = found->second;
  nodes_.erase(found);
  node->id.reset();
  Tidy(node);
}

void PrefixTree::Tidy(Node* node) {
  while (node->parent != nullptr && !node->id && node->children.empty()) {
    Node* parent = node->parent;
    keys_ -= node->edge.size();
    parent->children.erase(node->edge[0]);
    node = parent;
  }
  if (node->parent == nullptr || node->id || node->children.size() != 1) return;
  // One way on and nothing here: the two edges are one.
  std::unique_ptr<Node> child = std::move(node->children.begin()->second);
  child->edge.insert(child->edge.begin(), node->edge.begin(), node->edge.end());
  child->parent = node->parent;
  node->parent->children[child->edge[0]] = std::move(child);
}

PrefixTree::Match PrefixTree::Find(std::span<const PrefixKey> keys) const {
  Match match;
  const Node* node = root_.get();
  while (match.common < keys.size()) {
    const auto child = node->children.find(keys[match.common]);
    if (child == node->children.end()) break;
    node = child->second.get();
    const auto differ = std::ranges::mismatch(node->edge, keys.subspan(match.common)).in1;
    match.common += static_cast<size_t>(differ - node->edge.begin());
    if (differ != node->edge.end()) break;
    if (node->id) match.entries.push_back(*node->id);
  }
  return match;
}

size_t PrefixTree::Length(Id id) const { return nodes_.at(id)->length; }

size_t PrefixTree::LengthAbove(Id id) const {
  const Node* node = nodes_.at(id)->parent;
  while (node->parent != nullptr && !node->id) node = node->parent;
  return node->length;
}

std::vector<PrefixKey> PrefixTree::Keys(Id id) const {
  const Node* node = nodes_.at(id);
  std::vector<PrefixKey> keys(node->length);
  for (; node->parent != nullptr; node = node->parent) {
    std::ranges::copy(node->edge,
                      keys.begin() + static_cast<ptrdiff_t>(node->length - node->edge.size()));
  }
  return keys;
}

void PrefixTree::ForEachBelow(Id id, const std::function<void(Id)>& fn) const {
  for (const auto& [key, child] : nodes_.at(id)->children) Below(*child, fn);
}

void PrefixTree::Below(const Node& node, const std::function<void(Id)>& fn) {
  if (node.id) fn(*node.id);
  for (const auto& [key, child] : node.children) Below(*child, fn);
}

}  // namespace slotstream::state
