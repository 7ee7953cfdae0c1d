// What this machine can do at best: its memory's read rate and the peaks of the instructions that
// the kernels use. Every kernel's figure is printed as a fraction of one of these.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/thread_pool.h"
#include "bench/weight_buffer.h"

namespace slotstream::bench {

// Which pattern of reads is fastest differs between processors (on a Zen 3 server four streams read
// a quarter more than one), so both are measured and the better one is the roof.
inline constexpr int kReadStreams[] = {1, 4};

// Seconds to read `bytes` of `weights` once, each thread its own part of the buffer in `streams`
// forward streams, from where the call before ended. `position` is that place, in bytes of a
// thread's part.
double ReadMemory(const WeightBuffer& weights, size_t bytes, int streams, ThreadPool& threads,
                  size_t& position);

// An instruction's peak on one core.
struct Peak {
  std::string_view instructions;  // as PanelKernels::instructions names them
  bool integer;                   // dot products of 8-bit integers, else float32 FMA
  std::string_view what;          // the instructions timed
  double operations;              // of one loop: a multiplication and an addition are two
  uint64_t (*run)(uint64_t loops);
};

// The peaks of this build. One may be run only where kernels::AvailableKernels() has kernels that
// use its instructions.
std::span<const Peak> Peaks();

// nullptr if there is none.
const Peak* FindPeak(std::string_view instructions, bool integer);

// Seconds of `loops` loops on each of the pool's threads at once.
double RunPeak(const Peak& peak, uint64_t loops, ThreadPool& threads);

}  // namespace slotstream::bench
