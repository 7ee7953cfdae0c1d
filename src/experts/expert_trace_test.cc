#include "experts/expert_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "experts/trace_format.h"
#include "experts/trace_writer.h"
#include "io/test_directory.h"

namespace slotstream::experts {
namespace {

constexpr TraceHeader kHeader = {.layers = 3, .experts = 300, .top_k = 2, .sweep_rows = 32};

std::string ReadBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class ExpertTraceTest : public ::testing::Test {
 protected:
  // Four visits, the second of three tokens.
  void Write(bool finish) {
    auto writer = TraceWriter::Create(path_).value();
    ASSERT_TRUE(writer->Begin(kHeader));
    writer->Append({.position = 0, .layer = 2, .rows = 1}, std::vector<uint32_t>{299, 7});
    writer->Append({.position = 1, .layer = 0, .rows = 3, .prompt = true, .admit = true},
                   std::vector<uint32_t>{5, 4, 9, 5, 5, 0});
    writer->Append({.position = 4, .layer = 1, .rows = 1}, std::vector<uint32_t>{256, 255});
    writer->Append({.position = 4, .layer = 2, .rows = 1}, std::vector<uint32_t>{1, 2});
    if (finish) {
      ASSERT_TRUE(writer->Finish());
    }
  }
  Result<Trace> ReadBack(const std::string& bytes) {
    io::WriteTestFile(path_, std::as_bytes(std::span(bytes)));
    return ReadTrace(path_);
  }

  io::TestDirectory directory_;
  std::string path_ = directory_ / "trace";
};

TEST_F(ExpertTraceTest, GivesBackWhatWasWritten) {
  Write(/*finish=*/true);
  const Trace trace = ReadTrace(path_).value();
  EXPECT_TRUE(trace.complete);
  EXPECT_EQ(trace.header, kHeader);
  ASSERT_EQ(trace.visits.size(), 4u);
  EXPECT_EQ(trace.visits[1].position, 1u);
  EXPECT_EQ(trace.visits[1].rows, 3u);
  EXPECT_TRUE(trace.visits[1].prompt && trace.visits[1].admit);
  EXPECT_FALSE(trace.visits[2].prompt || trace.visits[2].admit);
  const auto experts = [&](size_t i) {
    std::vector<std::pair<uint32_t, uint32_t>> out;
    for (const ExpertNeed& need : trace.NeedsOf(i)) out.push_back({need.expert, need.rows});
    return out;
  };
  using Needs = std::vector<std::pair<uint32_t, uint32_t>>;
  EXPECT_EQ(experts(0), (Needs{{7, 1}, {299, 1}}));
  EXPECT_EQ(experts(1), (Needs{{0, 1}, {4, 1}, {5, 3}, {9, 1}}));
  EXPECT_EQ(experts(2), (Needs{{255, 1}, {256, 1}}));
}

TEST_F(ExpertTraceTest, CutAnywhereGivesItsWholeVisits) {
  Write(/*finish=*/true);
  const std::string whole = ReadBytes(path_);
  ASSERT_EQ(whole.size(), 32u + 4 * 12 + (2 + 6 + 2 + 2) * 2 + 12);
  const std::vector<size_t> ends = {48, 72, 88, 104};  // of visits
  for (size_t size = 0; size < whole.size(); ++size) {
    const auto trace = ReadBack(whole.substr(0, size));
    if (size < 32) {
      ASSERT_FALSE(trace) << size;
      EXPECT_NE(trace.error().message.find(path_), std::string::npos);
      continue;
    }
    ASSERT_TRUE(trace) << size << ": " << trace.error().message;
    EXPECT_FALSE(trace->complete);
    EXPECT_EQ(trace->visits.size(), static_cast<size_t>(std::ranges::count_if(
                                        ends, [&](size_t e) { return e <= size; })));
  }
}

TEST_F(ExpertTraceTest, DamageIsNamed) {
  Write(/*finish=*/true);
  const std::string whole = ReadBytes(path_);
  const auto expect = [&](size_t at, std::string_view bytes, ErrorCode code, const char* word) {
    std::string damaged = whole;
    damaged.replace(at, bytes.size(), bytes);
    const auto trace = ReadBack(damaged);
    ASSERT_FALSE(trace) << word;
    EXPECT_EQ(trace.error().code, code) << trace.error().message;
    EXPECT_NE(trace.error().message.find(word), std::string::npos) << trace.error().message;
  };
  expect(0, "x", ErrorCode::kInvalidArgument, "no expert trace");
  expect(8, "\x02", ErrorCode::kUnsupported, "version 2");
  expect(12, "\x04", ErrorCode::kCorrupt, "first 32 bytes");
  expect(36, "\x03", ErrorCode::kCorrupt, "offset 32 names layer 3 of 3");
  expect(38, "\x04", ErrorCode::kCorrupt, "flags 0x4");
  expect(40, std::string_view("\0", 1), ErrorCode::kCorrupt, "pass of 0 tokens");
  expect(43, "\x7f", ErrorCode::kCorrupt, "tokens");
  expect(44, "\x2c", ErrorCode::kCorrupt, "expert 300 of 300");
  expect(44, std::string_view("\x07\0", 2), ErrorCode::kCorrupt, "expert 7 twice");
  expect(104, "\x05", ErrorCode::kCorrupt, "after 5 visits, but there are 4");
  EXPECT_EQ(ReadBack(whole + "x").error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(ReadTrace(directory_ / "absent").error().code, ErrorCode::kNotFound);
}

TEST_F(ExpertTraceTest, AnyBytesAfterTheHeaderAreHarmless) {
  Write(/*finish=*/true);
  const std::string whole = ReadBytes(path_);
  std::mt19937 rng(3);
  int read = 0, refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = whole;
    for (int flips = 1 + static_cast<int>(rng() % 3); flips > 0; --flips) {
      bytes[32 + rng() % (bytes.size() - 32)] ^= static_cast<char>(1 << rng() % 8);
    }
    const auto trace = ReadBack(bytes);
    ++(trace ? read : refused);
    if (!trace) continue;
    ASSERT_EQ(trace->begin.size(), trace->visits.size() + 1);
    ASSERT_EQ(trace->begin.back(), trace->needs.size());
    for (const ExpertNeed& need : trace->needs) ASSERT_LT(need.expert, kHeader.experts);
  }
  EXPECT_GT(read, 100);
  EXPECT_GT(refused, 100);
}

TEST_F(ExpertTraceTest, ManyVisitsPassThroughTheWriter) {
  auto writer = TraceWriter::Create(path_).value();
  ASSERT_TRUE(writer->Begin(kHeader));
  constexpr uint32_t kRows = 5000;  // one visit is larger than any buffer by itself
  std::vector<uint32_t> chosen(kRows * 2);
  for (uint32_t i = 0; i < chosen.size(); ++i) chosen[i] = i % kHeader.experts;
  for (uint32_t i = 0; i < 300; ++i) {
    writer->Append({.position = i, .layer = i % 3, .rows = kRows}, chosen);
  }
  ASSERT_TRUE(writer->Finish());
  const Trace trace = ReadTrace(path_).value();
  EXPECT_TRUE(trace.complete);
  ASSERT_EQ(trace.visits.size(), 300u);
  for (uint32_t i = 0; i < 300; ++i) {
    ASSERT_EQ(trace.visits[i].position, i);
    ASSERT_EQ(trace.NeedsOf(i).size(), kHeader.experts);
  }
}

TEST_F(ExpertTraceTest, WithoutFinishItIsCutShort) {
  Write(/*finish=*/false);
  EXPECT_FALSE(ReadTrace(path_)->complete);
}

TEST_F(ExpertTraceTest, WhatCannotBeWrittenIsTold) {
  EXPECT_EQ(TraceWriter::Create(directory_ / "no/where").error().code, ErrorCode::kNotFound);
  if (std::filesystem::exists("/dev/full")) {
    auto writer = TraceWriter::Create("/dev/full");
    if (writer) {
      ASSERT_TRUE((*writer)->Begin(kHeader));
      (*writer)->Append({.layer = 0, .rows = 1}, std::vector<uint32_t>{1, 2});
      EXPECT_EQ((*writer)->Finish().error().code, ErrorCode::kResourceLimit);
    }
  }
  auto writer = TraceWriter::Create(path_).value();
  EXPECT_EQ(writer->Begin({.layers = 100, .experts = 1 << 16, .top_k = 1}).error().code,
            ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace slotstream::experts
