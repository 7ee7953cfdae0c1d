#include "state/piece_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "io/faulty_backend.h"
#include "io/test_directory.h"

namespace slotstream::state {
namespace {

// Tells the most reads in flight.
class WatchedBackend final : public io::ReadBackend {
 public:
  WatchedBackend(std::unique_ptr<io::ReadBackend> inner, size_t& most)
      : inner_(std::move(inner)), most_(most) {}
  std::string_view name() const override { return "watched"; }
  size_t depth() const override { return inner_->depth(); }
  Status Start(std::span<const io::BackendRead> reads) override {
    in_flight_ += reads.size();
    most_ = std::max(most_, in_flight_);
    return inner_->Start(reads);
  }
  size_t Reap(std::span<io::BackendResult> out, bool wait) override {
    const size_t count = inner_->Reap(out, wait);
    in_flight_ -= count;
    return count;
  }
  void WaitReady() override { inner_->WaitReady(); }

 private:
  std::unique_ptr<io::ReadBackend> inner_;
  size_t in_flight_ = 0;
  size_t& most_;
};

// Each piece goes to two spans; what has arrived must be right from then on.
class Receiver final : public PieceReceiver {
 public:
  explicit Receiver(std::span<const std::span<const std::byte>> expected, bool urgent)
      : expected_(expected), urgent_(urgent), pieces_(expected.size()) {}

  std::vector<std::span<std::byte>> Place(size_t i) override {
    EXPECT_EQ(i, placed_++);
    pieces_[i].resize(expected_[i].size());
    const std::span<std::byte> all(pieces_[i]);
    return {all.first(all.size() / 3), all.subspan(all.size() / 3)};
  }
  void Arrived(size_t pieces) override {
    EXPECT_GE(pieces, arrived_);
    for (; arrived_ < pieces; ++arrived_) {
      EXPECT_TRUE(io::SameBytes(pieces_[arrived_], expected_[arrived_])) << arrived_;
    }
    if (stop_at_ != nullptr && pieces >= 2) *stop_at_ = true;
  }
  bool Urgent() const override { return urgent_; }

  void StopAtTwo(std::atomic<bool>& stop) { stop_at_ = &stop; }
  size_t arrived() const { return arrived_; }
  size_t placed() const { return placed_; }

 private:
  const std::span<const std::span<const std::byte>> expected_;
  const bool urgent_;
  std::vector<std::vector<std::byte>> pieces_;
  std::atomic<bool>* stop_at_ = nullptr;
  size_t placed_ = 0;
  size_t arrived_ = 0;
};

class PieceStreamTest : public ::testing::Test {
 protected:
  PieceStreamTest() {
    constexpr size_t kSizes[] = {0, 1, 100, 3'000'000, 0, 600'000, 5, 524'288 * 3, 9'000'000, 0};
    size_t bytes = 7;
    for (const size_t size : kSizes) bytes += size;
    contents_ = io::RandomBytes(bytes, 3);
    io::WriteTestFile(scratch_ / "pieces", contents_);
    file_ = io::File::Open(scratch_ / "pieces", false).value();
    size_t offset = 7;
    for (const size_t size : kSizes) {
      const auto piece = std::span<const std::byte>(contents_).subspan(offset, size);
      expected_.push_back(piece);
      wanted_.push_back({file_.get(), {PieceKind::kLinear, offset, size, Crc32c(piece)}});
      offset += size;
    }
  }

  Status Read(std::vector<io::Fault> faults, Receiver& receiver) {
    auto inner = io::MakeBackend(io::BackendKind::kThreads, kPieceReads, nullptr).value();
    auto faulty = std::make_unique<io::FaultyBackend>(std::move(inner), std::move(faults), 11);
    io::FaultyBackend& backend = *faulty;
    io::ReadQueue queue(std::make_unique<WatchedBackend>(std::move(faulty), most_in_flight_),
                        Clock::Steady());
    Status status = ReadPieces(wanted_, queue, receiver, stop_);
    EXPECT_EQ(queue.outstanding(), 0u);
    reads_ = backend.reads();
    return status;
  }

  io::TestDirectory scratch_;
  std::vector<std::byte> contents_;
  std::unique_ptr<io::File> file_;
  std::vector<std::span<const std::byte>> expected_;
  std::vector<WantedPiece> wanted_;
  std::atomic<bool> stop_ = false;
  size_t most_in_flight_ = 0;
  uint64_t reads_ = 0;
};

TEST_F(PieceStreamTest, AllPiecesComeInOrder) {
  Receiver receiver(expected_, true);
  const Status status = Read({{.kind = io::FaultKind::kReordered, .count = 1000}}, receiver);
  EXPECT_TRUE(status) << status.error().message;
  EXPECT_EQ(receiver.arrived(), expected_.size());
  EXPECT_EQ(most_in_flight_, kPieceReads);
}

TEST_F(PieceStreamTest, LittleIsInFlightWhileNobodyWaits) {
  Receiver receiver(expected_, false);
  EXPECT_TRUE(Read({}, receiver));
  EXPECT_EQ(receiver.arrived(), expected_.size());
  EXPECT_EQ(most_in_flight_, 2u);
}

// Whatever a read suffers: what arrives is right, and all of it arrives or an error says why not.
TEST_F(PieceStreamTest, EveryFaultOfEveryRead) {
  Receiver clean(expected_, true);
  ASSERT_TRUE(Read({}, clean));
  const uint64_t reads = reads_;
  size_t failures = 0, repaired = 0;
  for (const io::FaultKind kind :
       {io::FaultKind::kShortRead, io::FaultKind::kZeroRead, io::FaultKind::kInterrupted,
        io::FaultKind::kIoError, io::FaultKind::kLate, io::FaultKind::kFlippedBit,
        io::FaultKind::kZeroedPage, io::FaultKind::kTruncated, io::FaultKind::kDeviceGone,
        io::FaultKind::kStartRefused}) {
    for (uint64_t read = 0; read < reads; ++read) {
      for (const uint64_t count : {uint64_t{1}, io::Fault::kEveryLater}) {
        Receiver receiver(expected_, true);
        const Status status = Read({{.kind = kind, .first_read = read, .count = count}}, receiver);
        if (status) {
          EXPECT_EQ(receiver.arrived(), expected_.size());
          repaired += kind == io::FaultKind::kFlippedBit;
          continue;
        }
        ++failures;
        EXPECT_LT(receiver.arrived(), expected_.size());
        EXPECT_NE(status.error().message.find(file_->path()), std::string::npos)
            << status.error().message;
      }
    }
  }
  // A single flipped bit is repaired by the second read, one in every read is not.
  EXPECT_EQ(repaired, reads);
  EXPECT_GT(failures, 3 * reads);
}

TEST_F(PieceStreamTest, AFileThatIsDamagedStaysSo) {
  wanted_[5].piece.crc ^= 1;
  Receiver receiver(expected_, true);
  const Status status = Read({}, receiver);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kCorrupt);
  EXPECT_LE(receiver.arrived(), 5u);
}

TEST_F(PieceStreamTest, OfAnotherSizeOrEmptyAndWrong) {
  ++wanted_[3].piece.bytes;
  Receiver receiver(expected_, true);
  EXPECT_FALSE(Read({}, receiver));
  --wanted_[3].piece.bytes;
  wanted_[4].piece.crc = 1;
  Receiver other(expected_, true);
  EXPECT_FALSE(Read({}, other));
}

TEST_F(PieceStreamTest, AStopLeavesTheRest) {
  Receiver receiver(expected_, false);
  receiver.StopAtTwo(stop_);
  const Status status = Read({}, receiver);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kCancelled);
  EXPECT_LT(receiver.placed(), expected_.size());
}

}  // namespace
}  // namespace slotstream::state
