#include "checkpoint/packed_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "checkpoint/pack_writer.h"
#include "checkpoint/synthetic_checkpoint.h"
#include "checkpoint/verify_packed.h"
#include "io/test_directory.h"

namespace slotstream::checkpoint {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::HasSubstr;

void ExpectSame(const Checkpoint& original, const Checkpoint& packed) {
  auto queue = TestQueue();
  for (Part part : kParts) {
    ASSERT_EQ(original.layout(part) == nullptr, packed.layout(part) == nullptr);
    if (original.layout(part) == nullptr) continue;
    EXPECT_EQ(original.layout(part)->tensors, packed.layout(part)->tensors);
    auto a = original.Load(part, *queue, {});
    uint64_t done = 0;
    auto b = packed.Load(part, *queue, [&](uint64_t bytes) { done = bytes; });
    ASSERT_TRUE(a) << a.error().message;
    ASSERT_TRUE(b) << b.error().message;
    EXPECT_EQ(done, packed.layout(part)->bytes);
    for (const Checkpoint* checkpoint : {&original, &packed}) {
      std::atomic<bool> cancel = false;
      uint64_t before = 0;
      auto cancelled = checkpoint->Load(
          part, *queue,
          [&](uint64_t bytes) {
            EXPECT_FALSE(cancel) << "it went on";
            before = bytes;
            cancel = true;
          },
          &cancel);
      ASSERT_FALSE(cancelled);
      EXPECT_EQ(cancelled.error().code, ErrorCode::kCancelled);
      EXPECT_LE(before, done);
    }
    ASSERT_EQ(a->bytes(), b->bytes());
    // The first tensor of a part begins it.
    const ResidentTensor& first = packed.layout(part)->tensors.front();
    auto begin = [&](const ResidentPart& loaded) -> const void* {
      return first.storage == Storage::kRows ? loaded.rows(first.name)->data
             : first.storage == Storage::kBf16
                 ? static_cast<const void*>(loaded.bf16(first.name)->data)
                 : *loaded.floats(first.name);
    };
    EXPECT_EQ(std::memcmp(begin(*a), begin(*b), a->bytes()), 0);
  }
  ASSERT_EQ(original.experts().layers(), packed.experts().layers());
  for (uint32_t layer = 0; layer < original.experts().layers(); ++layer) {
    for (uint32_t expert = 0; expert < original.experts().experts(); ++expert) {
      auto a = ReadExpert(original.experts(), layer, expert, *queue);
      auto b = ReadExpert(packed.experts(), layer, expert, *queue);
      ASSERT_TRUE(a) << a.error().message;
      ASSERT_TRUE(b) << b.error().message;
      ASSERT_TRUE(std::ranges::equal(a->span(), b->span())) << layer << " " << expert;
    }
  }
  for (size_t i = 0; i < original.config().ple_layers.size(); ++i) {
    ASSERT_EQ(original.ngrams(i).rows(), packed.ngrams(i).rows());
    ASSERT_EQ(original.ngrams(i).row_bytes(), packed.ngrams(i).row_bytes());
    const uint64_t rows = original.ngrams(i).rows();
    for (uint64_t row = 0; row < rows; row += 500) {
      const uint64_t count = std::min<uint64_t>(500, rows - row);
      auto a = ReadNgramRows(original.ngrams(i), row, count, *queue);
      auto b = ReadNgramRows(packed.ngrams(i), row, count, *queue);
      ASSERT_TRUE(a) << a.error().message;
      ASSERT_TRUE(b) << b.error().message;
      ASSERT_EQ(*a, *b) << row;
    }
  }
}

void PackAndCompare(const std::string& source) {
  io::TestDirectory directory;
  auto summary = Pack(source, directory / "packed", {});
  ASSERT_TRUE(summary) << summary.error().message;
  EXPECT_FALSE(fs::exists(directory / "packed.packing"));
  EXPECT_FALSE(fs::exists(directory / "packed.packing.lock"));
  EXPECT_FALSE(fs::exists(directory / "packed/journal.json"));
  for (bool direct : {true, false}) {
    auto original = Checkpoint::Open(source, {.direct = direct});
    auto packed = Checkpoint::Open(directory / "packed", {.direct = direct});
    ASSERT_TRUE(original) << original.error().message;
    ASSERT_TRUE(packed) << packed.error().message;
    EXPECT_EQ((*packed)->form(), Form::kPacked);
    EXPECT_EQ((*packed)->experts().staging_bytes(), 0u);
    if (!direct) ExpectSame(**original, **packed);
  }
}

TEST(PackedCheckpoint, HoldsTheMiniature) {
  PackAndCompare(std::string(SLOTSTREAM_SOURCE_DIR) + "/models/miniature");
}

TEST(PackedCheckpoint, HoldsDraftAndVision) {
  PackAndCompare(std::string(SLOTSTREAM_SOURCE_DIR) + "/tests/goldens/tiny-a");
}

TEST(PackedCheckpoint, HoldsAnOddGeometry) {
  io::TestDirectory source;
  SyntheticCheckpoint(OddConfig()).Write(source.path());
  PackAndCompare(source.path());
}

void FlipByte(const std::string& path, uint64_t offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  const auto byte = static_cast<char>(file.get() ^ 0x10);
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(byte);
}

// Records longer than a chunk: several pieces, each checked, the last one shorter.
TEST(PackedCheckpoint, RecordsOfSeveralChunks) {
  nlohmann::json config = OddConfig();
  nlohmann::json& text = config["text_config"];
  text["hidden_size"] = 512;
  text["moe_intermediate_size"] = 512;
  text["num_hidden_layers"] = 2;
  text["num_experts"] = 3;
  text["num_experts_per_tok"] = 2;
  text["mtp_num_hidden_layers"] = 1;
  text["ple_layer_ids"] = {2};
  io::TestDirectory directory;
  fs::create_directory(directory / "source");
  SyntheticCheckpoint(config).Write(directory / "source");
  ASSERT_TRUE(Pack(directory / "source", directory / "packed", {}));
  auto original = Checkpoint::Open(directory / "source");
  auto packed = Checkpoint::Open(directory / "packed");
  ASSERT_TRUE(original && packed);
  ExpectSame(**original, **packed);

  const ExpertFormat& format = (*packed)->experts();
  const uint64_t record = format.shape().record_bytes();
  ASSERT_EQ(Chunks(record), 2u);
  auto queue = TestQueue();
  const std::string path = directory / "packed/experts.bin";
  for (uint64_t within : {uint64_t{0}, kChunkBytes - 1, kChunkBytes, record - 1}) {
    const uint64_t at = format.FileOrder(1, 2) + within;
    FlipByte(path, at);
    auto bad = ReadExpert(format, 1, 2, *queue);
    ASSERT_FALSE(bad);
    const uint64_t chunk = at - within + within / kChunkBytes * kChunkBytes;
    EXPECT_THAT(bad.error().message,
                HasSubstr("layer 1, expert 2: bytes " + std::to_string(chunk)));
    EXPECT_TRUE(ReadExpert(format, 1, 1, *queue));
    auto verified = VerifyPacked(directory / "packed", *queue, {});
    ASSERT_TRUE(verified && verified->bad.size() == 1);
    EXPECT_EQ(verified->bad[0].offset, chunk);
    FlipByte(path, at);
  }
  EXPECT_TRUE(ReadExpert(format, 1, 2, *queue));
}

// Records that begin at a page, cut at checksum chunks, each piece in its place.
TEST(PackedLayout, RecordsOfThePublishedModel) {
  PackedLayout layout;
  layout.expert = {{640, 2560, 64}, {640, 2560, 64}, {2560, 640, 64}};
  layout.expert_layers = 48;
  layout.experts = 512;
  EXPECT_EQ(layout.expert.record_bytes(), 2'764'800u);
  EXPECT_EQ(layout.experts_bytes(), 67'947'724'800u);
  EXPECT_EQ(layout.checksums_bytes(), 24'576u * 11 * 4);
  layout.ngrams = {{.layer = 1, .rows = 320'001'536, .width = 160, .group = 32}};
  ASSERT_TRUE(PlaceNgramTables(layout.ngrams));
  EXPECT_EQ(layout.ngrams[0].row_bytes(), 100u);
  EXPECT_EQ(layout.ngrams[0].rows_per_page(), 40u);
  EXPECT_EQ(layout.ngram_pages(), 8'000'039u);
}

class DamageTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = new io::TestDirectory;
    const std::string tiny = std::string(SLOTSTREAM_SOURCE_DIR) + "/tests/goldens/tiny-a";
    auto summary = Pack(tiny, *directory_ / "packed", {});
    ASSERT_TRUE(summary) << summary.error().message;
  }
  static void TearDownTestSuite() {
    delete directory_;
    directory_ = nullptr;
  }

  static std::string Packed() { return *directory_ / "packed"; }
  static std::string File(std::string_view name) { return Packed() + "/" + std::string(name); }

  // Opens and reads everything; the first error, or none.
  static Status ReadAll() {
    SS_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(Packed()));
    auto queue = TestQueue();
    for (Part part : kParts) {
      if (checkpoint->layout(part) == nullptr) continue;
      SS_ASSIGN_OR_RETURN(const ResidentPart loaded, checkpoint->Load(part, *queue, {}));
    }
    const ExpertFormat& experts = checkpoint->experts();
    for (uint32_t layer = 0; layer < experts.layers(); ++layer) {
      for (uint32_t expert = 0; expert < experts.experts(); ++expert) {
        SS_ASSIGN_OR_RETURN(const AlignedBuffer record, ReadExpert(experts, layer, expert, *queue));
      }
    }
    const NgramFormat& ngrams = checkpoint->ngrams(0);
    for (uint64_t row = 0; row < ngrams.rows(); row += 20) {
      SS_ASSIGN_OR_RETURN(const auto bytes, ReadNgramRow(ngrams, row, *queue));
    }
    return {};
  }

  static std::vector<BadPlace> Verify() {
    auto queue = TestQueue();
    auto result = VerifyPacked(Packed(), *queue, {});
    EXPECT_TRUE(result) << result.error().message;
    return result ? result->bad : std::vector<BadPlace>();
  }

  static io::TestDirectory* directory_;
};
io::TestDirectory* DamageTest::directory_ = nullptr;

TEST_F(DamageTest, AnyFlippedBitIsNoticedAndPlaced) {
  ASSERT_TRUE(ReadAll());
  ASSERT_TRUE(Verify().empty());
  std::mt19937 rng(5);
  for (const char* name : {"trunk.bin", "draft.bin", "vision.bin", "experts.bin", "ngram.bin"}) {
    const uint64_t size = fs::file_size(File(name));
    for (int i = 0; i < 6; ++i) {
      const uint64_t at = i == 0 ? 0 : i == 1 ? size - 1 : rng() % size;
      SCOPED_TRACE(name + std::string(" byte ") + std::to_string(at));
      FlipByte(File(name), at);
      Status status = ReadAll();
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code, ErrorCode::kCorrupt);
      EXPECT_THAT(status.error().message, HasSubstr(File(name)));
      const std::vector<BadPlace> bad = Verify();
      ASSERT_EQ(bad.size(), 1u);
      EXPECT_EQ(bad[0].file, name);
      EXPECT_LE(bad[0].offset, at);
      EXPECT_GT(bad[0].offset + bad[0].bytes, at);
      EXPECT_LE(bad[0].bytes, kChunkBytes);
      FlipByte(File(name), at);
    }
  }
  ASSERT_TRUE(ReadAll());
}

TEST_F(DamageTest, SmallFilesAreCheckedWhenOpened) {
  std::mt19937 rng(6);
  for (const char* name : {"manifest.json", "config.json", "checksums.bin"}) {
    const uint64_t size = fs::file_size(File(name));
    for (int i = 0; i < 40; ++i) {
      const uint64_t at = rng() % size;
      SCOPED_TRACE(name + std::string(" byte ") + std::to_string(at));
      FlipByte(File(name), at);
      auto opened = Checkpoint::Open(Packed());
      // Between two values white space and its absence mean the same, so a flip of it may pass.
      if (opened) {
        EXPECT_STREQ(name, "manifest.json");
      } else {
        EXPECT_THAT(opened.error().message, HasSubstr(File(name)));
      }
      FlipByte(File(name), at);
    }
  }
  ASSERT_TRUE(ReadAll());
}

TEST_F(DamageTest, VerifyTellsAllPlaces) {
  const auto opened = PackedCheckpoint::Open(Packed(), {});
  ASSERT_TRUE(opened);
  const uint64_t record = (*opened)->experts().shape().record_bytes();
  const std::vector<uint64_t> places = {0, record * 17 + 5, record * 40};
  for (uint64_t at : places) FlipByte(File("experts.bin"), at);
  FlipByte(File("ngram.bin"), 3 * kPageSize);
  FlipByte(File("ngram.bin"), 4 * kPageSize);
  std::vector<std::string> lines;
  for (const BadPlace& place : Verify()) lines.push_back(FormatBadPlace(place));
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_THAT(lines[0], HasSubstr("layer 0, expert 0"));
  EXPECT_THAT(lines[1], HasSubstr("layer 1, expert 1"));
  EXPECT_THAT(lines[2], HasSubstr("layer 2, expert 8"));
  EXPECT_THAT(lines[3], HasSubstr("bytes 12288 to 16384"));
  EXPECT_THAT(lines[3], HasSubstr("n-gram rows"));
  for (uint64_t at : places) FlipByte(File("experts.bin"), at);
  FlipByte(File("ngram.bin"), 3 * kPageSize);
  FlipByte(File("ngram.bin"), 4 * kPageSize);
  EXPECT_TRUE(Verify().empty());
}

// A page or record that is intact but not where it belongs.
TEST_F(DamageTest, StrayedPagesAreNoticed) {
  const std::string path = File("ngram.bin");
  const std::string before = io::ReadTestFile(path);
  std::string swapped = before;
  std::swap_ranges(swapped.begin(), swapped.begin() + kPageSize, swapped.begin() + kPageSize);
  SyntheticCheckpoint::WriteText(path, swapped);
  EXPECT_FALSE(ReadAll());
  SyntheticCheckpoint::WriteText(path, before);
  ASSERT_TRUE(ReadAll());
}

TEST_F(DamageTest, TruncatedAndMissingFiles) {
  for (const char* name : {"trunk.bin", "draft.bin", "vision.bin", "experts.bin", "ngram.bin",
                           "checksums.bin", "config.json", "manifest.json"}) {
    SCOPED_TRACE(name);
    const std::string before = io::ReadTestFile(File(name));
    for (const std::string& content :
         {before.substr(0, before.size() / 2), before.substr(0, before.size() - 1), before + "x",
          std::string()}) {
      if (std::string_view(name) == "manifest.json" && content.size() + 1 == before.size())
        continue;
      SyntheticCheckpoint::WriteText(File(name), content);
      auto opened = Checkpoint::Open(Packed());
      ASSERT_FALSE(opened);
      EXPECT_THAT(opened.error().message, HasSubstr(File(name)));
      auto queue = TestQueue();
      auto verified = VerifyPacked(Packed(), *queue, {});
      EXPECT_TRUE(!verified || !verified->bad.empty());
    }
    fs::remove(File(name));
    auto opened = Checkpoint::Open(Packed());
    ASSERT_FALSE(opened);
    EXPECT_THAT(opened.error().code, AnyOf(ErrorCode::kNotFound, ErrorCode::kCorrupt));
    SyntheticCheckpoint::WriteText(File(name), before);
  }
  ASSERT_TRUE(ReadAll());
}

TEST_F(DamageTest, VerifyCanBeCancelled) {
  auto queue = TestQueue();
  uint64_t last = 0, all = 0;
  VerifyOptions options{.progress = [&](uint64_t done, uint64_t total) {
    EXPECT_GE(done, last);
    last = done;
    all = total;
    return true;
  }};
  ASSERT_TRUE(VerifyPacked(Packed(), *queue, options));
  EXPECT_EQ(last, all);
  options.progress = [](uint64_t, uint64_t) { return false; };
  auto result = VerifyPacked(Packed(), *queue, options);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kCancelled);
}

TEST_F(DamageTest, AnotherVersionIsNamed) {
  const std::string before = io::ReadTestFile(File("manifest.json"));
  nlohmann::json manifest = nlohmann::json::parse(before);
  manifest["version"] = kFoldedVersion + 1;
  SyntheticCheckpoint::WriteText(File("manifest.json"), manifest.dump());
  auto opened = Checkpoint::Open(Packed());
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(opened.error().message, HasSubstr("version"));
  SyntheticCheckpoint::WriteText(File("manifest.json"), before);
}

}  // namespace
}  // namespace slotstream::checkpoint
