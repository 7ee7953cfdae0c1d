#include "model/ngram_memory.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/scalar_math.h"

namespace slotstream::model {
namespace {

TEST(NgramGate, ZeroHasNoSign) {
  EXPECT_EQ(NgramGate(0.0f), 0.5f);
  EXPECT_EQ(NgramGate(-0.0f), 0.5f);
}

TEST(NgramGate, IsTheSigmoidOfTheSignedRoot) {
  for (const float c : {1e-6f, 1e-3f, 0.25f, 1.0f, 4.0f, 90.0f}) {
    EXPECT_EQ(NgramGate(c), kernels::Sigmoid(std::sqrt(c))) << c;
    EXPECT_EQ(NgramGate(-c), kernels::Sigmoid(-std::sqrt(c))) << c;
    EXPECT_NEAR(NgramGate(c), 1 / (1 + std::exp(-std::sqrt(double{c}))), 1e-6);
  }
}

TEST(NgramGate, SmallValuesAreRaisedToTheFloor) {
  for (const float c : {9e-7f, 1e-8f, 1e-30f, 1e-44f}) {
    EXPECT_EQ(NgramGate(c), NgramGate(1e-6f)) << c;
    EXPECT_EQ(NgramGate(-c), NgramGate(-1e-6f)) << c;
  }
  EXPECT_GT(NgramGate(1e-8f), 0.5f);
  EXPECT_LT(NgramGate(-1e-8f), 0.5f);
  EXPECT_NE(NgramGate(2e-6f), NgramGate(1e-6f));
}

}  // namespace
}  // namespace slotstream::model
