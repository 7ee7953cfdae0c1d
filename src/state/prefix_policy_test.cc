#include "state/prefix_policy.h"

#include <gtest/gtest.h>

#include <vector>

namespace slotstream::state {
namespace {

TEST(PrefixPolicy, Classes) {
  EXPECT_EQ(ClassOf({.length = 500, .turns = 1}), EntryClass::kOneOff);
  EXPECT_EQ(ClassOf({.length = 500, .turns = 2}), EntryClass::kConversation);
  EXPECT_EQ(ClassOf({.length = 500, .turns = 2, .side = true}), EntryClass::kSide);
  // States of the turn under way stand as high as the turn; those of earlier ones do not.
  EXPECT_EQ(ClassOf({.length = 500, .turns = 2, .turns_below = 2}), EntryClass::kConversation);
  EXPECT_EQ(ClassOf({.length = 500, .turns = 2, .turns_below = 3}), EntryClass::kSuperseded);
  EXPECT_EQ(ClassOf({.length = 500, .turns = 1, .turns_below = 3, .conversations = 2}),
            EntryClass::kShared);
  // The next conversation of the same agent begins there.
  EXPECT_EQ(ClassOf({.length = 500, .turns = 1, .turns_below = 9, .junction = true}),
            EntryClass::kSide);
  EXPECT_EQ(ClassOf({.length = 20, .turns = 1, .turns_below = 9, .junction = true}),
            EntryClass::kSuperseded);
  // Too short to be worth a state's fixed part.
  EXPECT_EQ(ClassOf({.length = 20, .turns = 1, .conversations = 9}), EntryClass::kOneOff);
}

TEST(PrefixPolicy, WhatIsOverGrowsOld) {
  EXPECT_EQ(ClassOf({.length = 500, .turns = 9, .idle_requests = 63}), EntryClass::kConversation);
  EXPECT_EQ(ClassOf({.length = 500, .turns = 9, .idle_requests = 64}), EntryClass::kOneOff);
  EXPECT_EQ(ClassOf({.length = 500, .turns_below = 9, .junction = true, .idle_requests = 64}),
            EntryClass::kSuperseded);
  EXPECT_EQ(ClassOf({.length = 500, .conversations = 2, .idle_requests = 255}),
            EntryClass::kShared);
  EXPECT_EQ(ClassOf({.length = 500, .conversations = 2, .idle_requests = 256}),
            EntryClass::kOneOff);
}

TEST(PrefixPolicy, ClassBeforeValue) {
  const std::vector<EntryWorth> entries = {
      {.cls = EntryClass::kConversation, .rebuild_tokens = 1, .bytes = 1 << 20},
      {.cls = EntryClass::kOneOff, .rebuild_tokens = 90'000, .bytes = 1 << 20},
      {.cls = EntryClass::kShared, .rebuild_tokens = 1, .bytes = 1 << 20}};
  EXPECT_EQ(ChooseVictim(entries), 1u);
}

TEST(PrefixPolicy, TokensPerByteAboveTheCredit) {
  std::vector<EntryWorth> entries = {{.rebuild_tokens = 4000, .bytes = 200 << 20, .last_use = 1},
                                     {.rebuild_tokens = 300, .bytes = 120 << 20, .last_use = 2},
                                     {.rebuild_tokens = 300, .bytes = 110 << 20, .last_use = 3}};
  EXPECT_EQ(ChooseVictim(entries), 1u);
  entries[1].credit = entries[2].credit = 30;
  EXPECT_EQ(ChooseVictim(entries), 0u);
  // Of equals the longest unused, then the first.
  entries.assign(3, {.rebuild_tokens = 5, .bytes = 1, .last_use = 7});
  EXPECT_EQ(ChooseVictim(entries), 0u);
  entries[2].last_use = 6;
  EXPECT_EQ(ChooseVictim(entries), 2u);
}

}  // namespace
}  // namespace slotstream::state
