// What the commands of slotstream-bench share.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "bench/report.h"
#include "kernels/kernels.h"

namespace slotstream::bench {

struct CommonOptions {
  std::vector<int> threads;        // counts to measure; empty: 1 and all cores
  std::vector<std::string> isas;   // kernels to measure; empty: the fastest
  std::vector<std::string> modes;  // compute modes; empty: all
  std::string peer;                // folder of a llama.cpp build; empty: no peer
  int rounds = 0;                  // 0: the command's own number
  size_t memory_mib = 1024;        // of weights to stream
  bool quick = false;              // one short round: shows that it works, measures nothing
  bool shared_cores = false;       // count rounds in which others had a part of the cores
  bool small_pages = false;        // the process gets no huge pages
};

// The options with their defaults filled in.
struct Setup {
  std::vector<int> threads;
  std::vector<const kernels::KernelTable*> tables;
  std::vector<kernels::ComputeMode> modes;
};
Result<Setup> MakeSetup(const CommonOptions& options);

}  // namespace slotstream::bench
