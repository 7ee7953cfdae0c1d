#include "checkpoint/describe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "checkpoint/pack_writer.h"
#include "checkpoint/packed_layout.h"
#include "checkpoint/synthetic_checkpoint.h"
#include "io/test_directory.h"

namespace slotstream::checkpoint {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DescribeTest : public ::testing::Test {
 protected:
  DescribeTest() {
    const fs::path tiny = fs::path(SLOTSTREAM_SOURCE_DIR) / "tests/goldens/tiny-a";
    fs::create_directory(source());
    for (const auto& entry : fs::directory_iterator(tiny)) {
      if (!entry.path().filename().string().starts_with("golden")) {
        fs::copy(entry.path(), source());
      }
    }
  }
  std::string source() const { return directory_ / "source"; }
  io::TestDirectory directory_;
};

TEST_F(DescribeTest, WholeCheckpointInBothForms) {
  auto original = Describe(source());
  ASSERT_TRUE(original) << original.error().message;
  EXPECT_TRUE(original->usable());
  const ModelConfig& config = *original->config;
  EXPECT_EQ(original->expert_records, (config.num_layers() + 1) * config.num_experts);
  const auto checkpoint = Checkpoint::Open(source());
  const ExpertShape& shape = (*checkpoint)->experts().shape();
  EXPECT_EQ(original->expert_bytes_per_token,
            config.num_layers() * config.experts_per_token * shape.bytes());
  EXPECT_EQ(original->parts.size(), 5u);
  EXPECT_EQ(original->resident_bytes, (*checkpoint)->layout(Part::kTrunk)->bytes +
                                          (*checkpoint)->layout(Part::kDraft)->bytes +
                                          (*checkpoint)->layout(Part::kVision)->bytes);
  EXPECT_THAT(FormatDescription(*original), Contains(HasSubstr("nothing missing")));

  ASSERT_TRUE(Pack(source(), directory_ / "packed", {}));
  auto packed = Describe(directory_ / "packed");
  ASSERT_TRUE(packed);
  EXPECT_THAT(packed->problems, IsEmpty());
  EXPECT_EQ(packed->form, Form::kPacked);
  EXPECT_EQ(packed->ngram_bytes_per_token, config.ngram_heads() * kPageSize);
  for (size_t i = 0; i < packed->parts.size(); ++i) {
    EXPECT_EQ(packed->parts[i].parameters, original->parts[i].parameters);
  }
  fs::resize_file(directory_ / "packed/experts.bin", 4096);
  packed = Describe(directory_ / "packed");
  ASSERT_TRUE(packed);
  EXPECT_THAT(packed->problems, Contains(HasSubstr("experts.bin")));
  EXPECT_EQ(packed->parts.size(), 5u);  // still known from the manifest
}

TEST_F(DescribeTest, BrokenCheckpointsShowWhatIsKnown) {
  fs::remove(fs::path(source()) / "model-00002-of-00002.safetensors");
  fs::remove(fs::path(source()) / "mtp.safetensors");
  auto missing = Describe(source());
  ASSERT_TRUE(missing);
  EXPECT_FALSE(missing->usable());
  EXPECT_THAT(missing->problems, Contains(HasSubstr("model-00002-of-00002.safetensors")));
  EXPECT_THAT(missing->problems, Contains(HasSubstr("is missing")));
  EXPECT_THAT(missing->notes, Contains(HasSubstr("draft head")));
  EXPECT_EQ(missing->config->num_layers(), 8u);
  EXPECT_GT(missing->resident_bytes, 0u);
  EXPECT_THAT(FormatDescription(*missing), Contains(HasSubstr("not usable")));
  EXPECT_FALSE(Checkpoint::Open(source()));

  SyntheticCheckpoint::WriteText(source() + "/config.json", "{");
  auto unreadable = Describe(source());
  ASSERT_TRUE(unreadable);
  EXPECT_FALSE(unreadable->config);
  EXPECT_THAT(unreadable->problems, Contains(HasSubstr("config.json")));
  EXPECT_THAT(FormatDescription(*unreadable), Contains(HasSubstr("config.json")));

  auto nothing = Describe(directory_.path());
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace slotstream::checkpoint
