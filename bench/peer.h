// llama.cpp, measured beside us. Nothing of it is in this repository: --peer names a folder with a
// build of it, and its programs run as processes of their own (docs/BENCHMARKS.md says what the
// folder holds).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/products.h"
#include "bench/subprocess.h"

namespace slotstream::bench {

// Its matrix products, through DIR/bin/ggml_products (bench/peer/): a process that holds weights of
// several types in memory, waits, and times what it is asked for.
class PeerProducts {
 public:
  // `memory` bytes of weights per type, as our own WeightBuffer.
  static Result<PeerProducts> Start(const std::string& directory, size_t memory);

  // The types of 4.5 bits a weight that it has, e.g. "Q4_0 repacked".
  const std::vector<std::string>& types() const { return types_; }

  // An id for Run; absent if this type does not have this shape.
  Result<std::optional<int>> Prepare(const std::string& type, const ProductCase& product_case,
                                     int threads);
  // Seconds of one run, like Products::Run; 0 when the process failed.
  double Run(int id);

 private:
  std::unique_ptr<Subprocess> process_;
  std::vector<std::string> types_;
};

// Tokens per second as llama-bench prints them, of one repetition on an empty context. `more` are
// further arguments of it.
struct PeerSpeed {
  double prefill = 0;
  double decode = 0;
};
Result<PeerSpeed> RunLlamaBench(const std::string& directory, const std::string& model, int threads,
                                size_t prompt, size_t decode,
                                const std::vector<std::string>& more = {});

}  // namespace slotstream::bench
