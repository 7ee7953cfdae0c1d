// What asking the expert pool costs where nothing has to be read.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "experts/expert_store.h"

namespace slotstream::bench {

// The pool's share of a decoded token: a visit of each layer, as the model makes them, of experts
// that are all there.
class PoolVisits {
 public:
  // Reads the experts of one token. `checkpoint` must outlive this.
  static Result<std::unique_ptr<PoolVisits>> Create(const checkpoint::Checkpoint& checkpoint);

  // Seconds of one token's visits. kInternal if one had to read.
  Result<double> Run();

 private:
  PoolVisits(const checkpoint::ModelConfig& config, std::unique_ptr<experts::ExpertStore> store);
  Status VisitAll();

  uint32_t layers_;
  std::vector<experts::ExpertNeed> needs_;
  std::vector<experts::ReadyExpert> ready_;
  std::unique_ptr<experts::ExpertStore> store_;
};

}  // namespace slotstream::bench
