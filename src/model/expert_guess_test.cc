#include "model/expert_guess.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace slotstream::model {
namespace {

using testing::ElementsAre;

TEST(ExpertGuessTest, TheRestFollowsWhereMostIsNeeded) {
  std::vector<uint32_t> ranked = {5, 2};
  AddTheRest(6, 5, ranked);  // 3 of the 4 others
  EXPECT_THAT(ranked, ElementsAre(5, 2, 0, 1, 3, 4));
}

TEST(ExpertGuessTest, ElsewhereOnlyWhatWasNamed) {
  std::vector<uint32_t> ranked = {5, 2};
  AddTheRest(6, 4, ranked);  // 2 of the 4 others
  EXPECT_THAT(ranked, ElementsAre(5, 2));
  AddTheRest(6, 1, ranked);  // fewer than were named
  EXPECT_THAT(ranked, ElementsAre(5, 2));
  std::vector<uint32_t> all = {1, 0};
  AddTheRest(2, 2, all);
  EXPECT_THAT(all, ElementsAre(1, 0));
}

}  // namespace
}  // namespace slotstream::model
