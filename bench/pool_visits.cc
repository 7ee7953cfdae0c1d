#include "bench/pool_visits.h"

#include <utility>

#include "base/clock.h"
#include "io/backend.h"
#include "io/read_queue.h"

namespace slotstream::bench {
namespace {

constexpr size_t kDepth = 64;

}  // namespace

PoolVisits::PoolVisits(const checkpoint::ModelConfig& config,
                       std::unique_ptr<experts::ExpertStore> store)
    : layers_(config.num_layers()), store_(std::move(store)) {
  // As far apart as a router's choice.
  const uint32_t step = config.num_experts / config.experts_per_token;
  for (uint32_t i = 0; i < config.experts_per_token; ++i) needs_.push_back({i * step, 1});
}

Result<std::unique_ptr<PoolVisits>> PoolVisits::Create(const checkpoint::Checkpoint& checkpoint) {
  const checkpoint::ModelConfig& config = checkpoint.config();
  const uint32_t needs = config.num_layers() * config.experts_per_token;
  SS_ASSIGN_OR_RETURN(auto backend, io::MakeBackend(io::BackendKind::kAuto, kDepth, nullptr));
  SS_ASSIGN_OR_RETURN(auto store,
                      experts::ExpertStore::Create(
                          checkpoint.experts(),
                          std::make_unique<io::ReadQueue>(std::move(backend), Clock::Steady()),
                          {.layers = config.num_layers(),
                           .token_needs = needs,
                           .slots = needs,
                           .sweep_records = 2,
                           .sweep_rows = 2},
                          Clock::Steady()));
  std::unique_ptr<PoolVisits> visits(new PoolVisits(config, std::move(store)));
  SS_RETURN_IF_ERROR(visits->VisitAll());
  return visits;
}

Status PoolVisits::VisitAll() {
  for (uint32_t layer = 0; layer < layers_; ++layer) {
    SS_RETURN_IF_ERROR(store_->Begin(layer, needs_, 1, false));
    do {
      SS_RETURN_IF_ERROR(store_->Next(ready_));
    } while (!ready_.empty());
    store_->End();
  }
  return {};
}

Result<double> PoolVisits::Run() {
  const uint64_t read = store_->stats().bytes_read;
  const uint64_t start = Clock::Steady().NowNanos();
  SS_RETURN_IF_ERROR(VisitAll());
  const uint64_t nanos = Clock::Steady().NowNanos() - start;
  if (store_->stats().bytes_read != read) {
    return Fail(ErrorCode::kInternal, "a pool that holds all experts of a token read some again");
  }
  return static_cast<double>(nanos) * 1e-9;
}

}  // namespace slotstream::bench
