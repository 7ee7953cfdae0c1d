#include "checkpoint/synth_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/bf16.h"
#include "checkpoint/describe.h"
#include "checkpoint/geometry.h"
#include "checkpoint/packed_checkpoint.h"
#include "checkpoint/random_weights.h"
#include "checkpoint/synth_layout.h"
#include "checkpoint/synthetic_checkpoint.h"
#include "checkpoint/verify_packed.h"
#include "io/test_directory.h"

namespace slotstream::checkpoint {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Odd sizes, two n-gram tables, a draft head: 7 layers of 12 experts, 84 records.
SynthOptions SmallOptions() {
  nlohmann::json config = OddConfig();
  config["text_config"]["num_hidden_layers"] = 6;
  config["text_config"]["num_experts"] = 12;
  config["text_config"]["mtp_num_hidden_layers"] = 1;
  SynthOptions options;
  options.config = config.dump();
  options.config_name = "odd.json";
  options.draft = true;
  options.threads = 2;
  return options;
}

std::map<std::string, std::string> Contents(const std::string& directory) {
  std::map<std::string, std::string> out;
  for (const auto& entry : fs::directory_iterator(directory)) {
    out[entry.path().filename()] = io::ReadTestFile(entry.path());
  }
  return out;
}

class SynthTest : public ::testing::Test {
 protected:
  std::string target() const { return directory_ / "synthetic"; }

  std::map<std::string, std::string> Make(const SynthOptions& options) {
    auto summary = Synthesize(target(), options);
    EXPECT_TRUE(summary) << summary.error().message;
    if (!summary) return {};
    auto contents = Contents(target());
    fs::remove_all(target());
    return contents;
  }

  // The refusal's message; nothing may be left but the lock.
  Error Refuse(const SynthOptions& options) {
    auto summary = Synthesize(target(), options);
    EXPECT_FALSE(summary);
    EXPECT_FALSE(fs::exists(target()));
    EXPECT_FALSE(fs::exists(target() + ".synth"));
    return summary ? Error{} : summary.error();
  }

  io::TestDirectory directory_;
};

TEST_F(SynthTest, ConfigAndSeedDecideEveryByte) {
  SynthOptions options = SmallOptions();
  const auto reference = Make(options);
  options.threads = 5;
  EXPECT_EQ(Make(options), reference);
  options.seed = 2;
  const auto other = Make(options);
  for (const char* file : {"trunk.bin", "draft.bin", "experts.bin", "ngram.bin"}) {
    ASSERT_EQ(other.at(file).size(), reference.at(file).size());
    EXPECT_NE(other.at(file), reference.at(file)) << file;
  }
  options.seed = 1;
  options.skew = 0;
  EXPECT_NE(Make(options).at("trunk.bin"), reference.at("trunk.bin"));
}

TEST_F(SynthTest, IsACheckpointLikeAnyOther) {
  SynthOptions options = SmallOptions();
  options.side_files["notes.txt"] = "text";
  ASSERT_TRUE(Synthesize(target() + "/", options));
  auto queue = TestQueue();
  auto verified = VerifyPacked(target(), *queue, {});
  ASSERT_TRUE(verified) << verified.error().message;
  EXPECT_TRUE(verified->bad.empty()) << FormatBadPlace(verified->bad.front());
  auto checkpoint = Checkpoint::Open(target());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  for (Part part : {Part::kTrunk, Part::kDraft}) {
    EXPECT_TRUE((*checkpoint)->Load(part, *queue, {}));
  }
  EXPECT_EQ(io::ReadTestFile(target() + "/notes.txt"), "text");
}

// What a fold stores is the beginning of what it stands for, and every read gives its bytes.
TEST_F(SynthTest, FoldedReads) {
  SynthOptions options = SmallOptions();
  auto whole = Synthesize(directory_ / "whole", options);
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ(whole->records, 84u);
  EXPECT_EQ(whole->stored_records, 84u);
  options.fold = 5;
  auto folded = Synthesize(target(), options);
  ASSERT_TRUE(folded) << folded.error().message;
  EXPECT_EQ(folded->records, 84u);
  EXPECT_EQ(folded->stored_records, 17u);
  EXPECT_LT(folded->bytes, whole->bytes);
  const auto a = Contents(directory_ / "whole"), b = Contents(target());
  EXPECT_EQ(a.at("trunk.bin"), b.at("trunk.bin"));
  EXPECT_TRUE(a.at("experts.bin").starts_with(b.at("experts.bin")));
  EXPECT_TRUE(a.at("ngram.bin").starts_with(b.at("ngram.bin")));

  auto queue = TestQueue();
  auto original = PackedCheckpoint::Open(directory_ / "whole", {});
  auto opened = PackedCheckpoint::Open(target(), {});
  ASSERT_TRUE(original);
  ASSERT_TRUE(opened) << opened.error().message;
  for (uint32_t record = 0; record < 84; ++record) {
    const uint32_t stored = record % 17;
    auto read = ReadExpert((*opened)->experts(), record / 12, record % 12, *queue);
    auto expected = ReadExpert((*original)->experts(), stored / 12, stored % 12, *queue);
    ASSERT_TRUE(read) << read.error().message;
    ASSERT_TRUE(std::ranges::equal(read->span(), expected->span())) << record;
  }
  const PackedLayout& layout = (*opened)->manifest().layout;
  for (size_t i = 0; i < layout.ngrams.size(); ++i) {
    const NgramTableLayout& table = layout.ngrams[i];
    for (uint64_t row = 0; row < table.rows; row += 7) {
      const uint64_t page =
          (table.first_page + row / table.rows_per_page()) % layout.stored_ngram_pages();
      auto read = ReadNgramRow((*opened)->ngrams(i), row, *queue);
      ASSERT_TRUE(read) << read.error().message;
      const std::string_view stored(b.at("ngram.bin"));
      const std::string_view expected = stored.substr(
          page * kPageSize + row % table.rows_per_page() * table.row_bytes(), table.row_bytes());
      ASSERT_TRUE(io::SameBytes(*read, io::Bytes(expected))) << row;
    }
  }
  auto verified = VerifyPacked(target(), *queue, {});
  ASSERT_TRUE(verified);
  EXPECT_TRUE(verified->bad.empty());
  auto description = Describe(target());
  ASSERT_TRUE(description);
  EXPECT_TRUE(description->usable());
  EXPECT_EQ(description->expert_records, 84u);
  EXPECT_THAT(description->notes, ::testing::Contains(HasSubstr("folded: 17 expert records")));
}

// A program that knows version 1 alone must not read a folded directory as a whole one.
TEST_F(SynthTest, OnlyFoldedOnesHaveTheNewVersion) {
  SynthOptions options = SmallOptions();
  auto manifest = nlohmann::json::parse(Make(options).at("manifest.json"));
  EXPECT_EQ(manifest["version"], 1);
  EXPECT_FALSE(manifest.contains("fold"));
  options.fold = 2;
  manifest = nlohmann::json::parse(Make(options).at("manifest.json"));
  EXPECT_EQ(manifest["version"], 2);
  EXPECT_EQ(manifest["fold"], 2);
}

TEST_F(SynthTest, RefusesWishesThatMakeNoSense) {
  SynthOptions options = SmallOptions();
  options.fold = 0;
  EXPECT_THAT(Refuse(options).message, HasSubstr("fold of 0"));
  options.fold = 85;
  EXPECT_THAT(Refuse(options).message, HasSubstr("84 expert records"));
  options = SmallOptions();
  options.skew = -1;
  EXPECT_THAT(Refuse(options).message, HasSubstr("skew"));
  options.skew = NAN;
  EXPECT_THAT(Refuse(options).message, HasSubstr("skew"));
  options = SmallOptions();
  options.vision = true;
  EXPECT_THAT(Refuse(options).message, HasSubstr("odd.json has no vision tower"));
  options = SmallOptions();
  options.quiet_ids = {500};
  EXPECT_THAT(Refuse(options).message, HasSubstr("vocabulary of 500"));
  options = SmallOptions();
  options.config = "{";
  EXPECT_THAT(Refuse(options).message, HasSubstr("odd.json"));
  nlohmann::json config = OddConfig();
  config["text_config"]["moe_intermediate_size"] = 100;
  options.config = config.dump();
  EXPECT_THAT(Refuse(options).message, HasSubstr("100 inputs, no multiple of 8"));
}

TEST_F(SynthTest, RefusesAFullDiskAndAnExistingDirectory) {
  SynthOptions options = SmallOptions();
  options.free_bytes = [](const std::string&) -> Result<uint64_t> { return 1'000'000; };
  const Error full = Refuse(options);
  EXPECT_EQ(full.code, ErrorCode::kResourceLimit);
  EXPECT_THAT(full.message, HasSubstr("the disk has 1000000"));
  options = SmallOptions();
  fs::create_directory(target());
  io::WriteTestFile(target() + "/file", io::Bytes("mine"));
  auto summary = Synthesize(target(), options);
  ASSERT_FALSE(summary);
  EXPECT_THAT(summary.error().message, HasSubstr("exists already"));
  EXPECT_EQ(io::ReadTestFile(target() + "/file"), "mine");
}

TEST_F(SynthTest, CancelledOrKilledItLeavesNothingThatLooksComplete) {
  SynthOptions options = SmallOptions();
  const auto reference = Make(options);
  for (const char* phase : {"trunk", "draft", "experts", "n-grams"}) {
    std::atomic<bool> cancel = false;
    options.cancel = &cancel;
    options.progress = [&](std::string_view now, uint64_t, uint64_t) { cancel = now == phase; };
    EXPECT_EQ(Refuse(options).code, ErrorCode::kCancelled);
  }
  // What a killed process leaves is no checkpoint, and does not disturb the next.
  fs::create_directory(target() + ".synth");
  io::WriteTestFile(target() + ".synth/experts.bin", io::Bytes("begun"));
  io::WriteTestFile(target() + ".synth/stray", io::Bytes("left"));
  EXPECT_FALSE(DetectForm(target() + ".synth"));
  options = SmallOptions();
  EXPECT_EQ(Make(options), reference);
}

TEST(Geometry, FirstLayersOfThePublishedModel) {
  auto text = WithLayers(PublishedGeometry(), "published", 5);
  ASSERT_TRUE(text) << text.error().message;
  auto config = ParseConfig(*text, "published");
  ASSERT_TRUE(config) << config.error().message;
  ASSERT_EQ(config->num_layers(), 5u);
  EXPECT_EQ(config->layers[3], LayerKind::kFullAttention);
  EXPECT_EQ(config->layers[4], LayerKind::kLinearAttention);
  EXPECT_EQ(config->ple_layers, std::vector<uint32_t>{1});
  text = WithLayers(PublishedGeometry(), "published", 1);
  ASSERT_TRUE(text);
  EXPECT_TRUE(ParseConfig(*text, "published")->ple_layers.empty());
  for (const uint32_t layers : {0u, 49u}) {
    auto refused = WithLayers(PublishedGeometry(), "published", layers);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr("published has 48"));
  }
  EXPECT_FALSE(WithLayers("[]", "published", 1));
}

TEST(Geometry, LayoutOfTheTrueModel) {
  SynthOptions options;
  options.config = PublishedGeometry();
  auto config = ParseConfig(options.config, "published");
  ASSERT_TRUE(config);
  auto layout = SyntheticLayout(*config, options);
  ASSERT_TRUE(layout) << layout.error().message;
  EXPECT_EQ(layout->experts_bytes(), 67'947'724'800u);
  EXPECT_EQ(layout->ngram_pages(), 8'000'039u);
  EXPECT_EQ(layout->ngrams[0].row_bytes(), 100u);
  // Norms, convolutions and the like are wider in memory than in the published 2,924,005,400 bytes.
  EXPECT_NEAR(static_cast<double>(layout->trunk.bytes), 2.93e9, 0.02e9);
}

// Sum and spread of dequantized weights, by input modulo 8.
TEST(RandomWeights, PanelsHaveTheDeviationAskedFor) {
  const PanelShape shape{128, 256, 64};
  PanelRecipe recipe;
  recipe.deviation.assign(128, 0.5f);
  recipe.inputs.assign(128, 0xFFF0000F);
  std::vector<std::byte> panel(PanelBytes(shape, 1));
  FillPanel(shape, recipe, 7, 1, panel.data());
  double sum[8] = {}, squares[8] = {};
  const size_t block = 64 * shape.lane_group_bytes();
  for (uint32_t g = 0; g < shape.groups(); ++g) {
    for (uint32_t lane = 0; lane < 64; ++lane) {
      const std::byte* at = panel.data() + g * block;
      uint16_t scale = 0, bias = 0;
      std::memcpy(&scale, at + 2048 + lane * 2, 2);
      std::memcpy(&bias, at + 2048 + 128 + lane * 2, 2);
      for (uint32_t step = 0; step < 8; ++step) {
        uint32_t word = 0;
        std::memcpy(&word, at + (step * 64 + lane) * 4, 4);
        for (int i = 0; i < 8; ++i) {
          const double w = Bf16ToFloat(scale) * (word >> (4 * i) & 15) + Bf16ToFloat(bias);
          sum[i] += w;
          squares[i] += w * w;
        }
      }
    }
  }
  const double count = 64 * 32;
  for (int i = 0; i < 8; ++i) {
    const double expected = i == 0 || i > 4 ? 0.5 : 0.5 / 9.2;
    EXPECT_NEAR(sum[i] / count, 0, 4 * 0.52 / std::sqrt(count)) << i;
    EXPECT_NEAR(std::sqrt(squares[i] / count), expected, 0.05 * expected) << i;
  }
}

}  // namespace
}  // namespace slotstream::checkpoint
