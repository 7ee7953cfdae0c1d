#include "experts/record_reader.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "experts/test_formats.h"

namespace slotstream::experts {
namespace {

constexpr uint32_t kExperts = 12;

struct Harness {
  Harness(bool staged, uint32_t areas, std::vector<io::Fault> faults)
      : format(directory, 1, kExperts, staged),
        records(
            AlignedBuffer::Allocate(kExperts * format.shape().record_bytes(), "records").value()),
        reader(
            RecordReader::Create(format, FaultyQueue(std::move(faults), 5), areas, Clock::Steady())
                .value()) {}
  std::byte* record(uint32_t expert) {
    return records.data() + expert * format.shape().record_bytes();
  }
  void StartAll() {
    std::vector<RecordRead> reads;
    for (uint32_t expert = 0; expert < kExperts; ++expert) reads.push_back(ReadOf(expert));
    reader->Start(reads);
  }
  RecordRead ReadOf(uint32_t expert, bool ahead = false) {
    return {.key = {0, expert}, .record = record(expert), .tag = 100 + expert, .ahead = ahead};
  }
  // By tag; each record ends exactly once.
  std::map<uint32_t, Status> WaitForAll() {
    std::map<uint32_t, Status> ended;
    while (reader->outstanding() > 0) {
      std::vector<RecordDone> done;
      reader->Wait(done);
      EXPECT_FALSE(done.empty());
      for (RecordDone& one : done) {
        EXPECT_TRUE(ended.emplace(one.tag, std::move(one.status)).second) << one.tag;
      }
    }
    return ended;
  }

  io::TestDirectory directory;
  TestExperts format;
  AlignedBuffer records;
  std::unique_ptr<RecordReader> reader;
};

class RecordReaderTest : public ::testing::TestWithParam<bool> {};

TEST_P(RecordReaderTest, MoreRecordsThanAreas) {
  for (const uint32_t areas : {1u, 3u, kExperts}) {
    Harness harness(GetParam(), areas,
                    {{io::FaultKind::kReordered, 0, io::Fault::kEveryLater, 0.5},
                     {io::FaultKind::kLate, 0, io::Fault::kEveryLater, 0.3}});
    harness.StartAll();
    EXPECT_EQ(harness.reader->outstanding(), kExperts);
    const auto ended = harness.WaitForAll();
    ASSERT_EQ(ended.size(), kExperts);
    for (uint32_t expert = 0; expert < kExperts; ++expert) {
      EXPECT_TRUE(ended.at(100 + expert));
      EXPECT_TRUE(harness.format.Holds(harness.record(expert), 0, expert)) << expert;
    }
    EXPECT_EQ(harness.reader->stats().retries, 0u);
  }
}

TEST_P(RecordReaderTest, ABadCheckIsRepeatedOnce) {
  Harness harness(GetParam(), 2, {});
  harness.format.failures.Fail(4, 1);
  harness.format.failures.Fail(9, 2);
  harness.StartAll();
  const auto ended = harness.WaitForAll();
  ASSERT_EQ(ended.size(), kExperts);
  for (uint32_t expert = 0; expert < kExperts; ++expert) {
    const Status& status = ended.at(100 + expert);
    if (expert == 9) {
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code, ErrorCode::kCorrupt);
    } else {
      EXPECT_TRUE(status);
      EXPECT_TRUE(harness.format.Holds(harness.record(expert), 0, expert)) << expert;
    }
  }
  EXPECT_EQ(harness.reader->stats().retries, 2u);
}

// The last piece of all fails, then both pieces of a record in the middle: only that record fails.
TEST_P(RecordReaderTest, AFailedPieceFailsItsRecordOnly) {
  for (const auto& [fault, failing] :
       {std::pair{io::Fault{io::FaultKind::kDeviceGone, 2 * kExperts - 1}, kExperts - 1},
        std::pair{io::Fault{io::FaultKind::kStartRefused, 6}, 3u}}) {
    SCOPED_TRACE(failing);
    Harness harness(GetParam(), 1, {fault});
    harness.StartAll();
    const auto ended = harness.WaitForAll();
    ASSERT_EQ(ended.size(), kExperts);
    for (uint32_t expert = 0; expert < kExperts; ++expert) {
      const Status& status = ended.at(100 + expert);
      ASSERT_EQ(status.has_value(), expert != failing) << expert;
      if (status) {
        EXPECT_TRUE(harness.format.Holds(harness.record(expert), 0, expert)) << expert;
      } else {
        EXPECT_EQ(status.error().code, ErrorCode::kIo);
      }
    }
    EXPECT_EQ(harness.reader->stats().retries, 0u);
  }
}

TEST_P(RecordReaderTest, DrainAbandonsAndTheReaderGoesOn) {
  Harness harness(GetParam(), 3, {{io::FaultKind::kLate, 0, io::Fault::kEveryLater, 0.5}});
  harness.StartAll();
  harness.reader->Drain();
  EXPECT_EQ(harness.reader->outstanding(), 0u);
  harness.StartAll();
  const auto ended = harness.WaitForAll();
  EXPECT_EQ(ended.size(), kExperts);
  for (uint32_t expert = 0; expert < kExperts; ++expert) {
    EXPECT_TRUE(harness.format.Holds(harness.record(expert), 0, expert)) << expert;
  }
}

// Of reads given at once those ahead come last, and with a limit one after another.
TEST_P(RecordReaderTest, ReadsAheadGoLast) {
  Harness harness(GetParam(), 3, {});
  harness.reader->LimitAhead(1);
  std::vector<RecordRead> reads;
  for (uint32_t expert = 0; expert < kExperts; ++expert) {
    reads.push_back(harness.ReadOf(expert, /*ahead=*/expert % 2 == 0));
  }
  harness.reader->Start(reads);
  harness.WaitForAll();
  const std::vector<ExpertKey>& asked = harness.format.asked;
  ASSERT_EQ(asked.size(), kExperts);
  for (uint32_t i = 0; i < kExperts; ++i) {
    EXPECT_EQ(asked[i].expert, i < kExperts / 2 ? 2 * i + 1 : 2 * (i - kExperts / 2));
  }
}

TEST_P(RecordReaderTest, OnlyWhatHasNotBegunIsWithdrawn) {
  Harness harness(GetParam(), kExperts, {});
  harness.reader->LimitAhead(0);
  harness.reader->Start(std::vector{harness.ReadOf(1), harness.ReadOf(2, true)});
  EXPECT_FALSE(harness.reader->Withdraw(101));
  EXPECT_TRUE(harness.reader->Withdraw(102));
  EXPECT_FALSE(harness.reader->Withdraw(102));
  EXPECT_EQ(harness.WaitForAll().size(), 1u);
  EXPECT_EQ(harness.format.asked, (std::vector<ExpertKey>{{0, 1}}));
  std::vector<RecordDone> none;
  harness.reader->Wait(none);  // returns: nothing is left
  EXPECT_TRUE(none.empty());
}

INSTANTIATE_TEST_SUITE_P(DirectAndStaged, RecordReaderTest, ::testing::Bool());

}  // namespace
}  // namespace slotstream::experts
