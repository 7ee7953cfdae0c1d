#include "state/prefix_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "state/test_states.h"

namespace slotstream::state {
namespace {

using Keys = std::vector<PrefixKey>;
using Place = PrefixCache::Place;

const checkpoint::ModelConfig& Config() {
  static const checkpoint::ModelConfig config = SmallConfig();
  return config;
}

uint64_t StateBytes(size_t tokens) { return SequenceBytes(Config(), tokens); }

Keys Count(size_t count, PrefixKey from = 100) {
  Keys keys(count);
  for (size_t i = 0; i < count; ++i) keys[i] = from + i;
  return keys;
}

// One request: reads what is not stored, leaves a state one before the end and one behind a reply.
struct Asked {
  size_t served = 0;
  Keys all;  // prompt and what was read of the reply
};
Asked Ask(PrefixCache& cache, const Keys& prompt, size_t reply, const PrefixHints& hints = {},
          std::vector<size_t> junctions = {}) {
  const PrefixCache::Hit hit = cache.Find(prompt, hints);
  Sequence live = hit.state ? *hit.state : Sequence(Config());
  EXPECT_EQ(live.length(), hit.length);
  std::vector<size_t> places = junctions;
  places.push_back(prompt.size() - 1);
  for (const size_t place : places) {
    if (place <= live.length()) continue;
    ReadKeys(Config(), std::span(prompt).first(place), live);
    const bool junction = std::ranges::find(junctions, place) != junctions.end();
    cache.Insert(std::span(prompt).first(place), std::make_shared<Sequence>(live), hit.turn,
                 junction ? Place::kJunction : Place::kTurn);
  }
  Asked asked{hit.length, prompt};
  for (size_t i = 0; i < reply; ++i) asked.all.push_back(7000 + prompt.size() + i);
  ReadKeys(Config(), asked.all, live);
  ExpectEqual(live, *StateOf(Config(), asked.all));
  cache.Insert(asked.all, std::make_shared<Sequence>(std::move(live)), hit.turn, Place::kTurn);
  return asked;
}

Keys Plus(Keys keys, size_t count, PrefixKey from) {
  for (size_t i = 0; i < count; ++i) keys.push_back(from + i);
  return keys;
}

TEST(PrefixCache, TheNextTurnReadsOnlyWhatIsNew) {
  PrefixCache cache(100'000'000);
  const Asked first = Ask(cache, Count(300), 20);
  EXPECT_EQ(first.served, 0u);
  const Keys second = Plus(first.all, 30, 5000);
  EXPECT_EQ(cache.Peek(second)->length(), 320u);
  EXPECT_EQ(Ask(cache, second, 5).served, 320u);
  // The same again reads one token, an edit of the turn only the turn.
  EXPECT_EQ(Ask(cache, second, 5).served, 349u);
  EXPECT_EQ(Ask(cache, Plus(first.all, 30, 6000), 5).served, 320u);
  EXPECT_EQ(Ask(cache, Count(300), 2).served, 299u);
  const PrefixCacheStats stats = cache.stats();
  EXPECT_EQ(stats.requests, 5u);
  EXPECT_EQ(stats.hits, 4u);
  EXPECT_EQ(stats.tokens_served, 320u + 349 + 320 + 299);
}

TEST(PrefixCache, SharedRowsCountOnce) {
  PrefixCache cache(100'000'000);
  const Asked first = Ask(cache, Count(2000), 10);
  const uint64_t one = cache.stats().bytes;
  EXPECT_LT(one, StateBytes(2010) + StateBytes(0) + 3 * 2010 * sizeof(PrefixKey));
  EXPECT_GE(one, StateBytes(2010) + StateBytes(0));
  cache.SetBudget(0);
  EXPECT_EQ(cache.stats().bytes, 0u);
  EXPECT_EQ(cache.stats().entries, 0u);
  EXPECT_EQ(Ask(cache, first.all, 1).served, 0u);
  EXPECT_EQ(cache.stats().refused, 2u);
}

TEST(PrefixCache, TitlesAndSubAgentsDoNotEvictTheMainChat) {
  // Room for the main chat's states and three small ones.
  PrefixCache cache(StateBytes(3000) + 8 * StateBytes(200));
  Asked main = Ask(cache, Count(2000), 20);
  main = Ask(cache, Plus(main.all, 30, 5000), 20);
  Keys agent = Count(400, 50'000);
  for (size_t i = 0; i < 60; ++i) {
    Ask(cache, Count(150, 100'000 + 1000 * i), 8);
    agent = Ask(cache, Plus(agent, 10, 60'000 + 100 * i), 5, {.session = "", .side = true}).all;
    if (i % 20 == 19) {
      const Keys next = Plus(main.all, 30, 70'000 + 100 * i);
      const size_t held = main.all.size();
      main = Ask(cache, next, 20);
      EXPECT_EQ(main.served, held);
    }
  }
  EXPECT_GT(cache.stats().evicted[static_cast<size_t>(EntryClass::kOneOff)], 30u);
  EXPECT_LE(cache.stats().bytes, cache.stats().budget);
}

TEST(PrefixCache, ASessionKeepsItsOwnAlive) {
  for (const bool session : {false, true}) {
    PrefixCache cache(StateBytes(1000) + 6 * StateBytes(200));
    const PrefixHints hints{.session = session ? "one" : "", .side = false};
    Asked main = Ask(cache, Count(300), 20, hints);
    main = Ask(cache, Plus(main.all, 30, 5000), 20, hints);
    // More requests of sub-agents than a conversation may be idle for.
    for (size_t i = 0; i < 200; ++i) {
      Ask(cache, Count(900, 100'000 + 10'000 * i), 8,
          {.session = session ? "one" : "", .side = true});
    }
    const Snapshot left = cache.Peek(Plus(main.all, 1, 9));
    EXPECT_EQ(left && left->length() == main.all.size(), session);
  }
}

TEST(PrefixCache, FourConversationsInTurn) {
  PrefixCache cache(4 * StateBytes(2200) + 12 * StateBytes(0) + 4'000'000);
  std::vector<Asked> chats;
  for (size_t c = 0; c < 4; ++c) chats.push_back(Ask(cache, Count(1500, 10'000 * (c + 1)), 20));
  for (size_t turn = 0; turn < 10; ++turn) {
    for (Asked& chat : chats) {
      const size_t held = chat.all.size();
      chat = Ask(cache, Plus(chat.all, 25, 500 * turn), 20);
      EXPECT_EQ(chat.served, held);
    }
  }
}

TEST(PrefixCache, ASharedBeginningOutlivesItsConversations) {
  PrefixCache cache(StateBytes(1500) + 5 * StateBytes(300));
  const Keys system = Count(1000);
  for (size_t i = 0; i < 30; ++i) {
    const Asked asked = Ask(cache, Plus(system, 200, 10'000 * (i + 1)), 10, {}, {1000});
    EXPECT_EQ(asked.served, i == 0 ? 0u : 1000u);
    Ask(cache, Count(200, 1'000'000 + 1000 * i), 3);
  }
}

TEST(PrefixCache, TellsWhatItEvicts) {
  PrefixCache cache(100'000'000);
  std::vector<const Sequence*> told;
  cache.OnEvict([&told](const Sequence* state) { told.push_back(state); });
  const Snapshot one = StateOf(Config(), Count(5)), two = StateOf(Config(), Count(5));
  const PrefixTurn turn = cache.Find(Count(6), {}).turn;
  cache.Insert(Count(5), one, turn, Place::kTurn);
  cache.Insert(Count(5), two, turn, Place::kTurn);
  EXPECT_EQ(told, std::vector<const Sequence*>({one.get()}));
  cache.SetBudget(10);
  EXPECT_EQ(told, std::vector<const Sequence*>({one.get(), two.get()}));
}

// The cache as one would write it without caring for time: a list that is searched from end to end.
class NaiveCache {
 public:
  explicit NaiveCache(uint64_t budget) : budget_(budget) {}

  struct Entry {
    Keys keys;
    Snapshot state;
    Place place = Place::kTurn;
    PrefixTurn turn;
    uint64_t conversations = 1, last_use = 0;
    double credit = 0;
  };

  PrefixCache::Hit Find(const Keys& keys, const PrefixHints& hints) {
    ++request_;
    PrefixCache::Hit hit;
    hit.turn = {0, 1, request_, hints};
    Entry* longest = nullptr;
    for (Entry& entry : entries_) {
      hit.common = std::max(hit.common, Common(entry.keys, keys));
      if (entry.keys.size() >= keys.size() || Common(entry.keys, keys) < entry.keys.size()) {
        continue;
      }
      entry.last_use = request_;
      entry.credit = credit_;
      if (longest == nullptr || entry.keys.size() > longest->keys.size()) longest = &entry;
    }
    if (longest != nullptr) {
      hit.state = longest->state;
      hit.length = longest->keys.size();
      if (longest->place == Place::kJunction) {
        ++longest->conversations;
      } else {
        hit.turn.conversation = longest->turn.conversation;
        hit.turn.turn = longest->turn.turn + (hit.length + 1 < keys.size() ? 1 : 0);
      }
    }
    if (hit.turn.conversation == 0) hit.turn.conversation = next_conversation_++;
    for (Entry& entry : entries_) {
      if (!hints.session.empty() && entry.turn.hints.session == hints.session) {
        entry.last_use = request_;
      }
    }
    return hit;
  }

  void Insert(const Keys& keys, Snapshot state, const PrefixTurn& turn, Place place) {
    if (state->bytes() + keys.size() * sizeof(PrefixKey) > budget_) return;
    Entry entry{keys, std::move(state), place, turn, 1, turn.request, credit_};
    std::erase_if(entries_, [&](const Entry& old) {
      if (old.keys != keys) return false;
      entry.conversations = old.conversations;
      if (old.place == Place::kJunction) entry.place = Place::kJunction;
      return true;
    });
    entries_.push_back(std::move(entry));
    Evict();
  }

  void SetBudget(uint64_t budget) {
    budget_ = budget;
    Evict();
  }

  uint64_t Bytes() const {
    uint64_t bytes = 0;
    std::map<const void*, uint64_t> blocks;
    std::vector<const Keys*> sorted;
    for (const Entry& entry : entries_) {
      bytes += StateBytes(0);
      sorted.push_back(&entry.keys);
      entry.state->ForEachRows([&](const RowBlocks& rows) {
        for (size_t i = 0; i < rows.blocks(); ++i) blocks[rows.block(i)] = rows.block_bytes();
      });
    }
    for (const auto& [block, size] : blocks) bytes += size;
    std::ranges::sort(sorted, {}, [](const Keys* keys) -> const Keys& { return *keys; });
    for (size_t i = 0; i < sorted.size(); ++i) {
      const size_t known = i == 0 ? 0 : Common(*sorted[i - 1], *sorted[i]);
      bytes += (sorted[i]->size() - known) * sizeof(PrefixKey);
    }
    return bytes;
  }

  std::vector<Keys> Entries() const {
    std::vector<Keys> all;
    for (const Entry& entry : entries_) all.push_back(entry.keys);
    std::ranges::sort(all);
    return all;
  }

 private:
  static size_t Common(const Keys& a, const Keys& b) {
    return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
  }
  static bool Begins(const Keys& with, const Keys& keys) {
    return with.size() < keys.size() && Common(with, keys) == with.size();
  }

  // `uses`: of every block, by how many states.
  EntryWorth WorthOf(const Entry& entry, const std::map<const void*, size_t>& uses) const {
    EntryHistory history{.length = entry.keys.size(),
                         .turns = entry.turn.turn,
                         .conversations = entry.conversations,
                         .side = entry.turn.hints.side,
                         .idle_requests = request_ - entry.last_use};
    size_t above = 0;
    for (const Entry& other : entries_) {
      if (Begins(entry.keys, other.keys)) {
        history.turns_below = std::max(history.turns_below, other.turn.turn);
      }
      if (Begins(other.keys, entry.keys)) above = std::max(above, other.keys.size());
    }
    EntryWorth worth{ClassOf(history), entry.keys.size() - above, StateBytes(0), entry.credit,
                     entry.last_use};
    entry.state->ForEachRows([&](const RowBlocks& rows) {
      for (size_t i = 0; i < rows.blocks(); ++i) {
        if (uses.at(rows.block(i)) == 1) worth.bytes += rows.block_bytes();
      }
    });
    return worth;
  }

  void Evict() {
    while (!entries_.empty() && Bytes() > budget_) {
      std::map<const void*, size_t> uses;
      for (const Entry& entry : entries_) {
        entry.state->ForEachRows([&](const RowBlocks& rows) {
          for (size_t i = 0; i < rows.blocks(); ++i) ++uses[rows.block(i)];
        });
      }
      std::vector<EntryWorth> worths;
      for (const Entry& entry : entries_) worths.push_back(WorthOf(entry, uses));
      const size_t victim = ChooseVictim(worths);
      credit_ = std::max(credit_, Value(worths[victim]));
      entries_.erase(entries_.begin() + static_cast<ptrdiff_t>(victim));
    }
  }

  uint64_t budget_;
  std::vector<Entry> entries_;
  uint64_t next_conversation_ = 1, request_ = 0;
  double credit_ = 0;
};

TEST(PrefixCache, EqualsANaiveOne) {
  std::mt19937 rng(11);
  const uint64_t full = StateBytes(30) * 10;
  PrefixCache cache(full);
  NaiveCache naive(full);
  std::vector<Keys> histories = {{}};
  for (int step = 0; step < 100'000; ++step) {
    if (rng() % 50 == 0) {
      const uint64_t budget = rng() % 3 == 0 ? rng() % full : full;
      cache.SetBudget(budget);
      naive.SetBudget(budget);
    }
    // A known history or a part of it goes on.
    Keys prompt = histories[rng() % histories.size()];
    if (rng() % 4 == 0) prompt.resize(rng() % (prompt.size() + 1));
    for (size_t more = 1 + rng() % 6; more > 0; --more) prompt.push_back(rng() % 3);
    if (prompt.size() > 60) prompt.resize(1 + rng() % 10);
    const PrefixHints hints{.session = rng() % 3 == 0 ? std::string(1, 'a' + rng() % 3) : "",
                            .side = rng() % 5 == 0};
    const PrefixCache::Hit hit = cache.Find(prompt, hints);
    const PrefixCache::Hit expected = naive.Find(prompt, hints);
    ASSERT_EQ(hit.length, expected.length) << step;
    ASSERT_EQ(hit.common, expected.common) << step;
    ASSERT_EQ(hit.state, expected.state) << step;
    ASSERT_EQ(hit.turn.conversation, expected.turn.conversation);
    ASSERT_EQ(hit.turn.turn, expected.turn.turn);

    Sequence live = hit.state ? *hit.state : Sequence(Config());
    for (const size_t place : {live.length() + 1 + rng() % 4, prompt.size()}) {
      if (place <= live.length() || place > prompt.size()) continue;
      const Keys keys(prompt.begin(), prompt.begin() + static_cast<ptrdiff_t>(place));
      ReadKeys(Config(), keys, live);
      const auto state = std::make_shared<Sequence>(live);
      const Place kind = rng() % 3 == 0 ? Place::kJunction : Place::kTurn;
      cache.Insert(keys, state, hit.turn, kind);
      naive.Insert(keys, state, hit.turn, kind);
    }
    for (size_t t = 0; t < prompt.size(); ++t) {
      ASSERT_EQ(*live.attention[0].keys.row(t), static_cast<float>(prompt[t])) << step;
    }
    ASSERT_EQ(cache.stats().bytes, naive.Bytes()) << step;
    if (step % 16 == 0) {
      ASSERT_EQ(cache.Entries(), naive.Entries()) << step;
    }
    histories.push_back(std::move(prompt));
    if (histories.size() > 24) histories.erase(histories.begin() + rng() % histories.size());
  }
  EXPECT_GT(cache.stats().hits, 20'000u);
}

// A state that somebody writes: evicted or not, its memory is there until the write ends.
TEST(PrefixCache, WhatIsHeldIsCountedOnceAndStaysCounted) {
  PrefixCache cache(3 * StateBytes(600) + 100'000);
  const Keys one = Count(600);
  const Snapshot state = StateOf(Config(), one);
  cache.Insert(one, state, {}, Place::kTurn);
  const uint64_t bytes = cache.stats().bytes;
  PrefixCache::Claim held = cache.Hold(state);
  EXPECT_EQ(cache.stats().bytes, bytes);
  for (uint64_t i = 1; i < 6; ++i) {
    const Keys other = Count(600, 10'000 * i);
    cache.Insert(other, StateOf(Config(), other), {.request = i}, Place::kTurn);
    EXPECT_LE(cache.stats().bytes, cache.stats().budget);
    // Others went first, though it is the longest unused: nothing is free when it goes.
    EXPECT_TRUE(cache.Peek(Plus(one, 1, 1)));
  }
  cache.SetBudget(0);
  EXPECT_EQ(cache.stats().entries, 0u);
  EXPECT_EQ(cache.stats().bytes, StateBytes(600));
  PrefixCache::Claim moved = std::move(held);
  held = {};
  EXPECT_EQ(cache.stats().bytes, StateBytes(600));
  moved = {};
  EXPECT_EQ(cache.stats().bytes, 0u);
}

TEST(PrefixCache, RoomIsMadeForWhatIsOnItsWay) {
  PrefixCache cache(2 * StateBytes(600) + 100'000);
  const Keys one = Count(600), two = Count(600, 10'000);
  for (const Keys& keys : {one, two}) {
    cache.Insert(keys, StateOf(Config(), keys), {}, Place::kTurn);
  }
  EXPECT_FALSE(cache.Reserve(3 * StateBytes(600)));
  EXPECT_EQ(cache.stats().entries, 2u);
  {
    const auto room = cache.Reserve(StateBytes(600));
    ASSERT_TRUE(room);
    EXPECT_EQ(cache.stats().entries, 1u);
    EXPECT_LE(cache.stats().bytes, cache.stats().budget);
    EXPECT_GT(cache.stats().bytes, 2 * StateBytes(600));
    cache.Insert(one, StateOf(Config(), one), {}, Place::kTurn);
    EXPECT_EQ(cache.stats().entries, 1u);
  }
  EXPECT_LT(cache.stats().bytes, StateBytes(600) + 100'000);
}

}  // namespace
}  // namespace slotstream::state
