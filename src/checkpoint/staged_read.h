// Reading much through little memory: a few jobs' reads are in flight while one job's bytes are
// worked on.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "io/file.h"
#include "io/read_queue.h"

namespace slotstream::checkpoint {

inline constexpr size_t kStagedJobs = 4;
// Reads longer than this are split, so that even one job gives the disk depth.
inline constexpr uint64_t kStagedReadBytes = 256 * 1024;

// Runs `jobs` jobs in order; up to kStagedJobs of them have reads in flight, each in a slot of its
// own (0 to kStagedJobs - 1). `start` appends a job's requests (their tags are overwritten);
// `finish` is called for job 0, 1, 2, ... with the first error of its reads, if any. The first
// error of `start` or `finish` ends the run, and the queue is drained. It must be idle at the
// start.
Status RunStaged(
    io::ReadQueue& queue, size_t jobs,
    const std::function<Status(size_t job, size_t slot, std::vector<io::ReadRequest>& out)>& start,
    const std::function<Status(size_t job, size_t slot, Status read)>& finish);

struct FileRange {
  const io::File* file = nullptr;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// The smallest range around `range` that its file's alignment allows.
FileRange AlignedRange(const FileRange& range);

// RunStaged for ranges of any alignment: `describe` appends the ranges that a job reads, `consume`
// gets their bytes, one pointer per range. Memory: kStagedJobs times a job's bytes.
Status ReadStaged(
    io::ReadQueue& queue, size_t jobs,
    const std::function<void(size_t job, std::vector<FileRange>& out)>& describe,
    const std::function<Status(size_t job, std::span<const std::byte* const>)>& consume);

}  // namespace slotstream::checkpoint
