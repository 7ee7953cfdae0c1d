#include "checkpoint/staged_read.h"

#include <algorithm>
#include <array>

#include "base/aligned_buffer.h"

namespace slotstream::checkpoint {
namespace {

struct Slot {
  size_t pending = 0;
  Status status;  // the first error
};

void Await(const Slot& slot, std::span<Slot> slots, io::ReadQueue& queue) {
  std::vector<io::ReadCompletion> completions;
  while (slot.pending > 0) {
    completions.clear();
    queue.Wait(1, completions);
    for (io::ReadCompletion& completion : completions) {
      Slot& owner = slots[completion.tag];
      --owner.pending;
      if (!completion.status && owner.status) owner.status = std::move(completion.status);
    }
  }
}

// Memory and ranges of one job of ReadStaged.
struct Stage {
  AlignedBuffer memory;
  std::vector<FileRange> ranges;
  std::vector<const std::byte*> data;  // where each range's first byte arrives
};

Status Place(Stage& stage, std::vector<io::ReadRequest>& out) {
  size_t size = 0;
  std::vector<size_t> places;
  for (const FileRange& range : stage.ranges) {
    places.push_back(size);
    size += AlignUp(AlignedRange(range).bytes, kPageSize);
  }
  if (size > stage.memory.size()) {
    stage.memory = AlignedBuffer();  // the old pages go before new ones come
    SS_ASSIGN_OR_RETURN(stage.memory, AlignedBuffer::Allocate(size, "staging for tensors"));
  }
  stage.data.clear();
  for (size_t i = 0; i < stage.ranges.size(); ++i) {
    const FileRange& range = stage.ranges[i];
    const FileRange whole = AlignedRange(range);
    std::byte* destination = stage.memory.data() + places[i];
    stage.data.push_back(destination + (range.offset - whole.offset));
    const uint64_t needed = range.offset - whole.offset + range.bytes;
    for (uint64_t at = 0; at < needed; at += kStagedReadBytes) {
      out.push_back({.file = range.file,
                     .offset = whole.offset + at,
                     .destination = destination + at,
                     .length = static_cast<uint32_t>(std::min(kStagedReadBytes, whole.bytes - at)),
                     .required = static_cast<uint32_t>(std::min(kStagedReadBytes, needed - at))});
    }
  }
  return {};
}

}  // namespace

Status RunStaged(io::ReadQueue& queue, size_t jobs,
                 const std::function<Status(size_t, size_t, std::vector<io::ReadRequest>&)>& start,
                 const std::function<Status(size_t, size_t, Status)>& finish) {
  std::array<Slot, kStagedJobs> slots;
  auto run = [&]() -> Status {
    size_t started = 0;
    std::vector<io::ReadRequest> requests;
    for (size_t job = 0; job < jobs; ++job) {
      for (; started < jobs && started < job + kStagedJobs; ++started) {
        const size_t s = started % kStagedJobs;
        requests.clear();
        SS_RETURN_IF_ERROR(start(started, s, requests));
        for (io::ReadRequest& request : requests) request.tag = s;
        slots[s].pending = requests.size();
        slots[s].status = {};
        queue.Submit(requests);
      }
      Slot& slot = slots[job % kStagedJobs];
      Await(slot, slots, queue);
      SS_RETURN_IF_ERROR(finish(job, job % kStagedJobs, std::move(slot.status)));
    }
    return {};
  };
  Status status = run();
  if (!status) queue.Drain();  // before the caller's memory goes
  return status;
}

FileRange AlignedRange(const FileRange& range) {
  const uint64_t alignment = range.file->alignment();
  const uint64_t begin = range.offset / alignment * alignment;
  const uint64_t end = AlignUp(range.offset + range.bytes, alignment);
  return {range.file, begin, end - begin};
}

Status ReadStaged(io::ReadQueue& queue, size_t jobs,
                  const std::function<void(size_t, std::vector<FileRange>&)>& describe,
                  const std::function<Status(size_t, std::span<const std::byte* const>)>& consume) {
  std::array<Stage, kStagedJobs> stages;
  return RunStaged(
      queue, jobs,
      [&](size_t job, size_t slot, std::vector<io::ReadRequest>& out) {
        stages[slot].ranges.clear();
        describe(job, stages[slot].ranges);
        return Place(stages[slot], out);
      },
      [&](size_t job, size_t slot, Status read) -> Status {
        SS_RETURN_IF_ERROR(std::move(read));
        return consume(job, stages[slot].data);
      });
}

}  // namespace slotstream::checkpoint
