#include "state/prefix_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

namespace slotstream::state {
namespace {

using Keys = std::vector<PrefixKey>;

// The same by comparing with every entry.
class NaiveTree {
 public:
  std::optional<PrefixTree::Id> Insert(const Keys& keys, PrefixTree::Id id) {
    std::optional<PrefixTree::Id> old;
    if (const auto found = entries_.find(keys); found != entries_.end()) old = found->second;
    entries_[keys] = id;
    return old;
  }
  void Erase(PrefixTree::Id id) {
    std::erase_if(entries_, [id](const auto& entry) { return entry.second == id; });
  }
  PrefixTree::Match Find(const Keys& keys) const {
    PrefixTree::Match match;
    for (const auto& [stored, id] : entries_) {
      const auto differ = std::ranges::mismatch(stored, keys).in1;
      match.common = std::max(match.common, static_cast<size_t>(differ - stored.begin()));
      if (differ == stored.end()) match.entries.push_back(id);
    }
    std::ranges::sort(match.entries, {}, [&](PrefixTree::Id id) { return KeysOf(id).size(); });
    return match;
  }
  Keys KeysOf(PrefixTree::Id id) const {
    return std::ranges::find(entries_, id, [](const auto& entry) { return entry.second; })->first;
  }
  size_t LengthAbove(PrefixTree::Id id) const {
    const Keys own = KeysOf(id);
    size_t above = 0;
    for (const auto& [keys, other] : entries_) {
      if (keys.size() < own.size() && std::equal(keys.begin(), keys.end(), own.begin())) {
        above = std::max(above, keys.size());
      }
    }
    return above;
  }
  std::vector<PrefixTree::Id> Below(PrefixTree::Id id) const {
    const Keys own = KeysOf(id);
    std::vector<PrefixTree::Id> below;
    for (const auto& [keys, other] : entries_) {
      if (keys.size() > own.size() && std::equal(own.begin(), own.end(), keys.begin())) {
        below.push_back(other);
      }
    }
    return below;
  }
  const std::map<Keys, PrefixTree::Id>& entries() const { return entries_; }

 private:
  std::map<Keys, PrefixTree::Id> entries_;
};

// Few different keys, so that paths share, split and end within each other.
Keys RandomKeys(std::mt19937& rng) {
  Keys keys(1 + rng() % 12);
  for (PrefixKey& key : keys) key = rng() % 3;
  return keys;
}

TEST(PrefixTree, EqualsANaiveOne) {
  std::mt19937 rng(1);
  PrefixTree tree;
  NaiveTree naive;
  for (PrefixTree::Id id = 1; id <= 20'000; ++id) {
    if (rng() % 2 == 0 || naive.entries().empty()) {
      const Keys keys = RandomKeys(rng);
      ASSERT_EQ(tree.Insert(keys, id), naive.Insert(keys, id));
    } else {
      auto victim = naive.entries().begin();
      std::advance(victim, rng() % naive.entries().size());
      const PrefixTree::Id gone = victim->second;
      tree.Erase(gone);
      naive.Erase(gone);
    }
    ASSERT_EQ(tree.size(), naive.entries().size());
    const Keys asked = RandomKeys(rng);
    const PrefixTree::Match match = tree.Find(asked), expected = naive.Find(asked);
    ASSERT_EQ(match.common, expected.common);
    ASSERT_EQ(match.entries, expected.entries);
    for (const PrefixTree::Id entry : match.entries) {
      ASSERT_EQ(tree.Keys(entry), naive.KeysOf(entry));
      ASSERT_EQ(tree.Length(entry), naive.KeysOf(entry).size());
      ASSERT_EQ(tree.LengthAbove(entry), naive.LengthAbove(entry));
      std::vector<PrefixTree::Id> below;
      tree.ForEachBelow(entry, [&below](PrefixTree::Id other) { below.push_back(other); });
      ASSERT_EQ(below, naive.Below(entry));
    }
  }
  while (!naive.entries().empty()) {
    const PrefixTree::Id id = naive.entries().begin()->second;
    tree.Erase(id);
    naive.Erase(id);
  }
  EXPECT_EQ(tree.bytes(), 0u);
}

TEST(PrefixTree, CountsKeysOnceWhereTheyAreShared) {
  PrefixTree tree;
  const Keys one = {1, 2, 3, 4}, two = {1, 2, 3, 9, 9}, inner = {1, 2};
  tree.Insert(one, 1);
  tree.Insert(two, 2);
  EXPECT_EQ(tree.bytes(), 6 * sizeof(PrefixKey));
  tree.Insert(inner, 3);
  EXPECT_EQ(tree.bytes(), 6 * sizeof(PrefixKey));
  tree.Erase(2);
  EXPECT_EQ(tree.bytes(), 4 * sizeof(PrefixKey));
}

}  // namespace
}  // namespace slotstream::state
