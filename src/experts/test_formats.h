// Formats for tests: records and rows whose bytes follow from their names, in a file of their own.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "checkpoint/checkpoint.h"
#include "experts/slot_pool.h"
#include "io/faulty_backend.h"
#include "io/read_queue.h"
#include "io/test_directory.h"
#include "io/thread_backend.h"

namespace slotstream::experts {

// The i-th byte of what `name` names: no two names share a page, no name's pages are equal.
inline std::byte ByteOf(uint64_t name, size_t i) {
  uint64_t x = (name + 1) * 0x9e3779b97f4a7c15u + i * 0xbf58476d1ce4e5b9u;
  x ^= x >> 29;
  return static_cast<std::byte>(x * 0x94d049bb133111ebu >> 56);
}

// Makes the n-th check of a name fail as often as the test says.
class PlannedFailures {
 public:
  void Fail(uint64_t name, uint32_t times) { left_[name] = times; }
  bool Strikes(uint64_t name) {
    const auto entry = left_.find(name);
    return entry != left_.end() && entry->second > 0 && entry->second-- > 0;
  }

 private:
  std::map<uint64_t, uint32_t> left_;
};

// Two pages per expert, read as two pieces. Experts lie in the file in falling order within a
// layer. Staged, the two pages arrive in exchanged places and are put right by Finish.
class TestExperts final : public checkpoint::ExpertFormat {
 public:
  TestExperts(const io::TestDirectory& directory, uint32_t layers, uint32_t experts, bool staged)
      : ExpertFormat(Shape(), layers, experts), staged_(staged) {
    const size_t size = shape().record_bytes();
    EXPECT_EQ(size, 2 * kPageSize);
    std::vector<std::byte> bytes(size * layers * experts);
    for (uint32_t layer = 0; layer < layers; ++layer) {
      for (uint32_t expert = 0; expert < experts; ++expert) {
        for (size_t i = 0; i < size; ++i) {
          bytes[FileOrder(layer, expert) + i] = ByteOf(Name(layer, expert), i);
        }
      }
    }
    const std::string path = directory / "experts";
    io::WriteTestFile(path, bytes);
    auto file = io::File::Open(path, /*direct=*/false);
    EXPECT_TRUE(file);
    file_ = std::move(*file);
  }

  uint64_t Name(uint32_t layer, uint32_t expert) const {
    return uint64_t{layer} * experts() + expert;
  }
  bool Holds(const std::byte* record, uint32_t layer, uint32_t expert) const {
    for (size_t i = 0; i < shape().record_bytes(); ++i) {
      if (record[i] != ByteOf(Name(layer, expert), i)) return false;
    }
    return true;
  }

  size_t staging_bytes() const override { return staged_ ? 2 * kPageSize : 0; }
  void AppendPieces(uint32_t layer, uint32_t expert,
                    std::vector<checkpoint::ReadPiece>& out) const override {
    asked.push_back({layer, expert});
    for (size_t page = 0; page < 2; ++page) {
      out.push_back({.file = file_.get(),
                     .offset = FileOrder(layer, expert) + page * kPageSize,
                     .length = kPageSize,
                     .required = kPageSize,
                     .destination = (staged_ ? 1 - page : page) * kPageSize});
    }
  }
  Status Finish(uint32_t layer, uint32_t expert, std::span<const std::byte> staging,
                std::span<std::byte> record) const override {
    EXPECT_EQ(staging.size(), staging_bytes());
    EXPECT_EQ(record.size(), shape().record_bytes());
    if (staged_) {
      std::copy_n(staging.data() + kPageSize, kPageSize, record.data());
      std::copy_n(staging.data(), kPageSize, record.data() + kPageSize);
    }
    if (failures.Strikes(Name(layer, expert)) || !Holds(record.data(), layer, expert)) {
      return Fail(ErrorCode::kCorrupt, "a test's record is wrong");
    }
    return {};
  }
  uint64_t FileOrder(uint32_t layer, uint32_t expert) const override {
    return (uint64_t{layer} * experts() + experts() - 1 - expert) * shape().record_bytes();
  }

  mutable PlannedFailures failures;      // by Name
  mutable std::vector<ExpertKey> asked;  // the records asked for, in order

 private:
  static checkpoint::ExpertShape Shape() {
    const checkpoint::PanelShape panels{.n = 64, .k = 64, .group = 64};
    return {panels, panels, panels};
  }

  bool staged_;
  std::unique_ptr<io::File> file_;
};

// Rows of 20 bytes, 200 in a page of which 4,000 bytes are used.
class TestNgrams final : public checkpoint::NgramFormat {
 public:
  static constexpr size_t kRowsPerPage = 200;

  TestNgrams(const io::TestDirectory& directory, uint64_t rows) : NgramFormat(rows, 32, 32) {
    const size_t pages = (rows + kRowsPerPage - 1) / kRowsPerPage;
    std::vector<std::byte> bytes(pages * kPageSize);
    for (uint64_t row = 0; row < rows; ++row) {
      for (size_t i = 0; i < row_bytes(); ++i) {
        bytes[row / kRowsPerPage * kPageSize + row % kRowsPerPage * row_bytes() + i] =
            ByteOf(row, i);
      }
    }
    const std::string path = directory / "ngrams";
    io::WriteTestFile(path, bytes);
    auto file = io::File::Open(path, /*direct=*/false);
    EXPECT_TRUE(file);
    file_ = std::move(*file);
  }

  bool Holds(const std::byte* bytes, uint64_t row) const {
    for (size_t i = 0; i < row_bytes(); ++i) {
      if (bytes[i] != ByteOf(row, i)) return false;
    }
    return true;
  }

  size_t staging_bytes() const override { return kPageSize; }
  void AppendPieces(uint64_t row, std::vector<checkpoint::ReadPiece>& out) const override {
    out.push_back({.file = file_.get(),
                   .offset = row / kRowsPerPage * kPageSize,
                   .length = kPageSize,
                   .required = kPageSize,
                   .destination = 0});
  }
  Status Finish(uint64_t row, std::span<const std::byte> staging,
                std::span<std::byte> out) const override {
    EXPECT_EQ(out.size(), row_bytes());
    std::copy_n(staging.data() + row % kRowsPerPage * row_bytes(), row_bytes(), out.data());
    if (failures.Strikes(row) || !Holds(out.data(), row)) {
      return Fail(ErrorCode::kCorrupt, "a test's row is wrong");
    }
    return {};
  }

  mutable PlannedFailures failures;  // by row

 private:
  std::unique_ptr<io::File> file_;
};

// A queue over threads that suffers `faults`; `backend`, if given, stays with the queue.
inline std::unique_ptr<io::ReadQueue> FaultyQueue(std::vector<io::Fault> faults, uint64_t seed,
                                                  io::FaultyBackend** backend = nullptr) {
  auto threads = io::MakeThreadBackend(8);
  EXPECT_TRUE(threads);
  auto faulty = std::make_unique<io::FaultyBackend>(std::move(*threads), std::move(faults), seed);
  if (backend != nullptr) *backend = faulty.get();
  return std::make_unique<io::ReadQueue>(std::move(faulty), Clock::Steady());
}

}  // namespace slotstream::experts
