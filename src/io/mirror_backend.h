// Two copies of the same files on two disks: each read goes where it will be done first.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "io/backend.h"

namespace slotstream::io {

// Wraps a backend and replaces files by their copies. A disk's rate is what it brought while it had
// something to do; a read goes to the disk where what is outstanding and the read itself are done
// sooner. A read that fails on one disk is tried again on the other.
class MirrorBackend : public ReadBackend {
 public:
  // The second of each pair is a copy of the first; both outlive the backend. Files without a copy
  // are read as they are.
  MirrorBackend(std::unique_ptr<ReadBackend> inner,
                const std::vector<std::pair<const File*, const File*>>& copies, const Clock& clock);

  std::string_view name() const override { return inner_->name(); }
  size_t depth() const override { return inner_->depth(); }
  Status Start(std::span<const BackendRead> reads) override;
  size_t Reap(std::span<BackendResult> out, bool wait) override;
  void WaitReady() override { inner_->WaitReady(); }

  // Bytes that the first disk and the second have brought.
  uint64_t bytes(size_t disk) const { return disks_[disk].bytes; }

 private:
  struct Disk {
    uint64_t outstanding = 0;  // bytes
    uint64_t bytes = 0;        // brought in all
    double rate = 1;           // bytes a nanosecond
    // Of the measurement under way: bytes brought, and the time with something outstanding.
    uint64_t measured = 0;
    uint64_t busy_nanos = 0;
    uint64_t busy_since = 0;
  };
  struct Flight {
    size_t disk = 0;
    uint32_t length = 0;
  };

  size_t Choose(uint64_t id, uint32_t length) const;
  void Add(size_t disk, uint32_t length, uint64_t now);
  void Remove(size_t disk, uint32_t length, uint64_t brought, uint64_t now);

  std::unique_ptr<ReadBackend> inner_;
  const Clock& clock_;
  std::unordered_map<const File*, const File*> copies_;
  std::array<Disk, 2> disks_;
  std::unordered_map<uint64_t, Flight> flights_;  // by id
  std::unordered_map<uint64_t, size_t> failed_;   // ids whose last read failed, and where
  std::vector<BackendRead> routed_;               // kept to avoid allocation on the path
};

}  // namespace slotstream::io
