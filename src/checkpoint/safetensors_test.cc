#include "checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "checkpoint/synthetic_checkpoint.h"
#include "checkpoint/tensor_index.h"
#include "io/test_directory.h"

namespace slotstream::checkpoint {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kStart = 1000;

Result<TensorMap> Parse(std::string_view text, uint64_t data_bytes) {
  return ParseSafetensorsHeader(text, kStart, kStart + data_bytes, "file.safetensors");
}

TEST(Safetensors, Header) {
  auto tensors = Parse(R"({"__metadata__": {"format": "mlx"},
      "b": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [8, 20]},
      "a": {"dtype": "I64", "shape": [], "data_offsets": [0, 8]},
      "empty": {"dtype": "F32", "shape": [0, 5], "data_offsets": [8, 8]}})",
                       20);
  ASSERT_TRUE(tensors) << tensors.error().message;
  EXPECT_EQ(tensors->size(), 3u);
  EXPECT_EQ(tensors->at("b").offset, kStart + 8);
  EXPECT_EQ(tensors->at("b").bytes, 12u);
  EXPECT_EQ(tensors->at("b").dtype, Dtype::kBf16);
  EXPECT_TRUE(Parse("{}", 0));
}

TEST(Safetensors, BadHeaders) {
  struct Case {
    const char* text;
    uint64_t data_bytes;
    const char* mentions;
  };
  const Case cases[] = {
      {"", 0, "JSON"},
      {"[]", 0, "object"},
      {R"({"a": 5})", 0, "tensor a"},
      {R"({"a": {"shape": [1], "data_offsets": [0, 1]}})", 1, "dtype"},
      {R"({"a": {"dtype": "U9", "shape": [1], "data_offsets": [0, 1]}})", 1, "U9"},
      {R"({"a": {"dtype": "U8", "shape": 1, "data_offsets": [0, 1]}})", 1, "shape"},
      {R"({"a": {"dtype": "U8", "shape": [-1], "data_offsets": [0, 1]}})", 1, "shape"},
      {R"({"a": {"dtype": "U8", "shape": [1.0], "data_offsets": [0, 1]}})", 1, "shape"},
      {R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0]}})", 1, "data_offsets"},
      {R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, -1]}})", 1, "data_offsets"},
      {R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [1, 0]}})", 1, "data_offsets"},
      {R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1e300]}})", 1, "data_offsets"},
      {R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 99999999999999999999]}})", 1,
       "data_offsets"},
      {R"({"a": {"dtype": "U16", "shape": [1], "data_offsets": [0, 1]}})", 1, "do not span"},
      {R"({"a": {"dtype": "U8", "shape": [4294967296, 4294967296], "data_offsets": [0, 0]}})", 0,
       "too large"},
      {R"({"a": {"dtype": "U8", "shape": [5], "data_offsets": [0, 5]}})", 4, "truncated"},
      {R"({"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}})", 6, "2 bytes follow"},
      {R"({"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]},
           "b": {"dtype": "U8", "shape": [4], "data_offsets": [2, 6]}})",
       6, "tensor b: begins at byte 1002, inside"},
      {R"({"a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]},
           "b": {"dtype": "U8", "shape": [2], "data_offsets": [4, 6]}})",
       6, "gap"},
      {R"({"a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]},
           "a": {"dtype": "U8", "shape": [2], "data_offsets": [2, 4]}})",
       4, "twice"},
  };
  for (const Case& c : cases) {
    auto tensors = Parse(c.text, c.data_bytes);
    ASSERT_FALSE(tensors) << c.text;
    EXPECT_EQ(tensors.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(tensors.error().message, HasSubstr(c.mentions));
    EXPECT_THAT(tensors.error().message, HasSubstr("file.safetensors"));
  }
}

TEST(Safetensors, WhatIsWrittenReadsBack) {
  io::TestDirectory directory;
  const std::vector<float> floats = {1.5f, -2, 3, 4, 5, 6};
  const std::vector<int32_t> ints = {7, -8};
  const TensorData tensors[] = {
      {"logits", Dtype::kF32, {2, 3}, std::as_bytes(std::span(floats))},
      {"ids \"quoted\"", Dtype::kI32, {2}, std::as_bytes(std::span(ints))}};
  ASSERT_TRUE(WriteSafetensors(directory / "x.safetensors", tensors));
  for (bool direct : {false, true}) {
    auto file = SafetensorsFile::Open(directory / "x.safetensors", direct);
    ASSERT_TRUE(file) << file.error().message;
    ASSERT_EQ((*file)->tensors().size(), 2u);
    for (const TensorData& tensor : tensors) {
      const TensorInfo& info = (*file)->tensors().at(tensor.name);
      EXPECT_EQ(info.shape, tensor.shape);
      EXPECT_EQ(info.dtype, tensor.dtype);
      std::vector<std::byte> data(info.bytes);
      ASSERT_TRUE((*file)->file().ReadAt(info.offset, data));
      EXPECT_TRUE(std::ranges::equal(data, tensor.data));
    }
  }
  const TensorData wrong[] = {{"a", Dtype::kF32, {7}, std::as_bytes(std::span(floats))}};
  EXPECT_EQ(WriteSafetensors(directory / "y", wrong).error().code, ErrorCode::kInvalidArgument);
  const TensorData twice[] = {tensors[0], tensors[0]};
  EXPECT_FALSE(WriteSafetensors(directory / "y", twice));
}

TEST(Safetensors, BadFiles) {
  io::TestDirectory directory;
  const std::string path = directory / "x.safetensors";
  auto open_with = [&](std::string bytes) {
    SyntheticCheckpoint::WriteText(path, bytes);
    return SafetensorsFile::Open(path, false);
  };
  auto length = [](uint64_t n) { return std::string(reinterpret_cast<const char*>(&n), 8); };
  EXPECT_FALSE(open_with(""));
  EXPECT_FALSE(open_with("1234567"));
  EXPECT_FALSE(open_with(length(3) + "{}"));
  EXPECT_FALSE(open_with(length(UINT64_MAX) + "{}"));
  EXPECT_FALSE(open_with(length(kMaxSafetensorsHeader + 1) + "{}"));
  EXPECT_TRUE(open_with(length(2) + "{}"));
  EXPECT_FALSE(open_with(length(2) + "{}x"));
  EXPECT_EQ(SafetensorsFile::Open(directory / "none", false).error().code, ErrorCode::kNotFound);
}

TEST(TensorIndex, BadWeightMaps) {
  for (const char* text :
       {"", "[]", "{}", R"({"weight_map": 5})", R"({"weight_map": {"a": 5}})",
        R"({"weight_map": {"a": "../x.safetensors"}})", R"({"weight_map": {"a": "/etc/passwd"}})",
        R"({"weight_map": {"a": ".."}})", R"({"weight_map": {"a": ""}})",
        R"({"weight_map": {"a": "sub/x.safetensors"}})", "{\"weight_map\": {\"a\": \"x\\u0000y\"}}",
        R"({"weight_map": {"a": "x", "a": "y"}})"}) {
    auto map = ParseWeightMap(text, "index.json");
    ASSERT_FALSE(map) << text;
    EXPECT_EQ(map.error().code, ErrorCode::kCorrupt);
  }
  auto map = ParseWeightMap(R"({"metadata": {}, "weight_map": {"a": "x.safetensors"}})", "i");
  ASSERT_TRUE(map);
  EXPECT_EQ(map->at("a"), "x.safetensors");
}

class IndexTest : public ::testing::Test {
 protected:
  IndexTest() {
    Write("a.safetensors", {"one", "two"});
    Write("b.safetensors", {"three"});
    Index(R"({"weight_map": {"one": "a.safetensors", "two": "a.safetensors",
                             "three": "b.safetensors"}})");
  }
  void Write(const std::string& file, const std::vector<std::string>& names) {
    std::vector<TensorData> tensors;
    for (const std::string& name : names) {
      tensors.push_back({name, Dtype::kU8, {1}, std::as_bytes(std::span("x", 1))});
    }
    ASSERT_TRUE(WriteSafetensors(directory_ / file, tensors));
  }
  void Index(const std::string& text) {
    SyntheticCheckpoint::WriteText(directory_ / "model.safetensors.index.json", text);
  }
  std::string Problems() {
    std::string all;
    for (const Error& error : OpenTensorIndex(directory_.path(), false).problems) {
      all += error.message + "\n";
    }
    return all;
  }
  io::TestDirectory directory_;
};

TEST_F(IndexTest, ShardsAndDraft) {
  Write("mtp.safetensors", {"mtp.x"});
  const TensorIndex index = OpenTensorIndex(directory_.path(), false);
  EXPECT_TRUE(index.problems.empty()) << index.problems[0].message;
  EXPECT_EQ(index.tensors.size(), 4u);
  EXPECT_EQ(index.draft_file, 2u);
  EXPECT_TRUE(index.HasPrefix("mtp."));
  EXPECT_FALSE(index.HasPrefix("vision"));
}

TEST_F(IndexTest, SingleFileWithoutIndex) {
  std::filesystem::remove(directory_ / "model.safetensors.index.json");
  EXPECT_THAT(Problems(), HasSubstr("neither"));
  Write("model.safetensors", {"four"});
  EXPECT_EQ(Problems(), "");
}

TEST_F(IndexTest, MissingShardNamesATensor) {
  std::filesystem::remove(directory_ / "b.safetensors");
  EXPECT_THAT(Problems(), HasSubstr("b.safetensors"));
  EXPECT_THAT(Problems(), HasSubstr("three"));
  EXPECT_EQ(OpenTensorIndex(directory_.path(), false).problems[0].code, ErrorCode::kNotFound);
  EXPECT_EQ(OpenTensorIndex(directory_.path(), false).tensors.size(), 2u);
}

TEST_F(IndexTest, TensorInTwoShards) {
  Write("b.safetensors", {"three", "two"});
  EXPECT_THAT(Problems(), HasSubstr("tensor two is both in"));
}

TEST_F(IndexTest, TensorNotWhereTheIndexSays) {
  Index(R"({"weight_map": {"one": "b.safetensors", "two": "a.safetensors", "four":
           "b.safetensors"}})");
  EXPECT_THAT(Problems(), HasSubstr("tensor one is said to be in b.safetensors"));
  EXPECT_THAT(Problems(), HasSubstr("tensor four is said to be in b.safetensors"));
}

}  // namespace
}  // namespace slotstream::checkpoint
