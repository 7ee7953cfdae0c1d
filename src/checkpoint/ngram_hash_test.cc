#include "checkpoint/ngram_hash.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "checkpoint/published_config.h"

namespace slotstream::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

ModelConfig Published() { return *ParseConfig(PublishedConfig().dump(), "config.json"); }

ModelConfig Tiny() {
  ModelConfig config;
  config.vocab_size = 512;
  config.ple_layers = {1};
  config.ngram_size = 3;
  config.heads_per_ngram = 8;
  config.ngram_vocab_size_base = 500;
  config.ngram_vocab_divisor = 128;
  config.eos_token_id = 500;
  return config;
}

std::vector<uint64_t> Rows(const NgramHash& hash, std::vector<uint32_t> y) {
  std::vector<uint64_t> out(hash.sizes.size());
  hash.Rows(y, out);
  return out;
}

TEST(NgramHash, ConstantsOfThePublishedModel) {
  const NgramHash hash = MakeNgramHash(Published(), 0);
  EXPECT_THAT(hash.multipliers, ElementsAre(23703573157769u, 20109073645365u, 8052911324071u));
  EXPECT_THAT(hash.sizes, ElementsAre(20000003, 20000023, 20000033, 20000047, 20000059, 20000063,
                                      20000069, 20000077, 20000081, 20000093, 20000107, 20000147,
                                      20000153, 20000159, 20000161, 20000171));
  EXPECT_THAT(hash.offsets, ElementsAre(0, 20000003, 40000026, 60000059, 80000106, 100000165,
                                        120000228, 140000297, 160000374, 180000455, 200000548,
                                        220000655, 240000802, 260000955, 280001114, 300001275));
  EXPECT_EQ(hash.rows, 320001536u);
}

TEST(NgramHash, RowsOfThePublishedModel) {
  const NgramHash hash = MakeNgramHash(Published(), 0);
  const uint32_t e = 248044;
  EXPECT_THAT(Rows(hash, {9707, e, e}),
              ElementsAre(16410909, 39682429, 55103279, 60931720, 87006904, 116506179, 131512017,
                          152932897, 169641436, 182022480, 209277433, 237891023, 256841529,
                          277007269, 290665954, 300984276));
  EXPECT_THAT(Rows(hash, {1879, 9707, e}),
              ElementsAre(19556458, 22264623, 53735970, 65927109, 87927175, 108618915, 139679979,
                          141138361, 162871545, 189762108, 212811403, 237189125, 244117366,
                          271377476, 287204615, 306892687));
  EXPECT_THAT(Rows(hash, {13, 1879, 9707}),
              ElementsAre(1945815, 21676184, 41569920, 73453133, 89382691, 101365318, 129345002,
                          153328532, 169236118, 180634542, 200702525, 232937156, 258850703,
                          264784497, 293433841, 316713605));
  EXPECT_THAT(Rows(hash, {e, 13, 1879}),
              ElementsAre(9756876, 26311822, 58999048, 73699997, 93744060, 114699527, 137014642,
                          141747658, 167318289, 195483037, 207030861, 234662788, 259868634,
                          266133699, 288457629, 301842094));
  EXPECT_THAT(Rows(hash, {248045, e, e}),
              ElementsAre(13981229, 30076798, 49239434, 61315716, 98540601, 111186732, 120378863,
                          146384625, 173637879, 184336749, 217808755, 222173721, 249579227,
                          277180543, 299757935, 312970430));
}

TEST(NgramHash, ATinyTable) {
  const NgramHash hash = MakeNgramHash(Tiny(), 0);
  EXPECT_THAT(hash.multipliers,
              ElementsAre(4295158889763781u, 17440218147737327u, 1270917961434445u));
  EXPECT_THAT(hash.sizes, ElementsAre(503, 509, 521, 523, 541, 547, 557, 563, 569, 571, 577, 587,
                                      593, 599, 601, 607));
  EXPECT_EQ(hash.rows, 9088u);
  EXPECT_THAT(Rows(hash, {7, 500, 500}),
              ElementsAre(273, 987, 1180, 1718, 2135, 3089, 3487, 4114, 4310, 5401, 5961, 6314,
                          6632, 7724, 8026, 8433));
  EXPECT_THAT(Rows(hash, {11, 7, 500}),
              ElementsAre(178, 636, 1478, 1650, 2100, 2727, 3478, 4022, 4277, 5390, 5735, 6277,
                          6944, 7734, 8061, 8900));
  EXPECT_THAT(Rows(hash, {3, 11, 7}), ElementsAre(296, 990, 1318, 1826, 2107, 3081, 3545, 3857,
                                                  4466, 4927, 5507, 6112, 6862, 7216, 8172, 8739));
  EXPECT_THAT(Rows(hash, {500, 3, 11}),
              ElementsAre(302, 798, 1324, 1892, 2156, 2810, 3555, 4215, 4431, 5156, 5804, 6275,
                          6813, 7494, 8236, 8575));
}

// Tables of later layers continue the primes and have multipliers of their own.
TEST(NgramHash, LayersShareNoPrime) {
  ModelConfig config = Tiny();
  config.ple_layers = {1, 4};
  const NgramHash first = MakeNgramHash(config, 0), second = MakeNgramHash(config, 1);
  EXPECT_EQ(second.sizes.front(), 613u);  // the prime after 607
  EXPECT_EQ(second.offsets.front(), 0u);
  EXPECT_NE(first.multipliers, second.multipliers);
  EXPECT_EQ(second.rows % 128, 0u);
}

TEST(NgramHash, PrimesMatchTrialDivision) {
  ModelConfig config = Tiny();
  config.ngram_vocab_size_base = 2;
  config.heads_per_ngram = 120;
  std::vector<uint64_t> primes;
  for (uint64_t n = 2; primes.size() < 240; ++n) {
    bool prime = true;
    for (uint64_t d = 2; d * d <= n; ++d) prime = prime && n % d != 0;
    if (prime) primes.push_back(n);
  }
  EXPECT_THAT(MakeNgramHash(config, 0).sizes, ElementsAreArray(primes));
}

// Carmichael numbers and strong pseudoprimes to base 2 must not pass for primes.
TEST(NgramHash, PseudoprimesAreSkipped) {
  for (uint64_t n : {561u, 2047u, 3277u, 4033u, 1373653u, 25326001u}) {
    ModelConfig config = Tiny();
    config.ngram_vocab_size_base = n;
    EXPECT_NE(MakeNgramHash(config, 0).sizes.front(), n);
  }
}

TEST(NgramContext, SegmentsEndAfterEndOfText) {
  constexpr uint32_t kEos = 500;
  NgramContext context(3, kEos);
  std::vector<uint32_t> y(3);
  auto push = [&](uint32_t id) {
    context.Push(id, y);
    return y;
  };
  EXPECT_THAT(push(7), ElementsAre(7, kEos, kEos));
  EXPECT_THAT(push(11), ElementsAre(11, 7, kEos));
  EXPECT_THAT(push(3), ElementsAre(3, 11, 7));
  EXPECT_THAT(push(kEos), ElementsAre(kEos, 3, 11));  // it still sees its predecessors
  EXPECT_THAT(push(3), ElementsAre(3, kEos, kEos));
  EXPECT_THAT(push(4), ElementsAre(4, 3, kEos));
  EXPECT_THAT(push(kEos), ElementsAre(kEos, 4, 3));
  EXPECT_THAT(push(kEos), ElementsAre(kEos, kEos, kEos));
  EXPECT_EQ(context, NgramContext(3, kEos));
}

// Against the definition: y_d is id[t-d] unless an end of text lies in id[t-1] .. id[t-d].
TEST(NgramContext, EqualsTheDefinitionForAnyOrder) {
  constexpr uint32_t kEos = 2;
  uint32_t state = 1;
  for (uint32_t n = 2; n <= 6; ++n) {
    NgramContext context(n, kEos);
    std::vector<uint32_t> ids, y(n);
    for (int t = 0; t < 300; ++t) {
      state = state * 1664525 + 1013904223;
      ids.push_back((state >> 16) % 5);
      context.Push(ids.back(), y);
      bool ended = false;
      for (uint32_t d = 0; d < n; ++d) {
        const bool before = static_cast<int>(d) > t;
        ended = ended || before || (d > 0 && ids[t - d] == kEos);
        EXPECT_EQ(y[d], ended ? kEos : ids[t - d]) << n << " " << t << " " << d;
      }
    }
  }
}

}  // namespace
}  // namespace slotstream::checkpoint
