// A checkpoint made ready to run: opened, planned, loaded, with everything that a pass needs.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "engine/engine_registry.h"
#include "experts/expert_store.h"
#include "experts/ngram_store.h"
#include "experts/trace_writer.h"
#include "io/backend.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "plan/governor.h"
#include "plan/machine.h"
#include "plan/plan.h"
#include "text/tokenizer.h"

namespace slotstream::engine {

struct LoadOptions {
  std::string directory;
  plan::Wishes wishes;
  // A copy of `directory` on another disk, empty for none: reads go where they are done first.
  std::string mirror;
  io::BackendKind io = io::BackendKind::kAuto;
  std::string kernels = "auto";  // see kernels::SelectKernels
  // Where engines tell each other what they planned with (EngineRegistry); empty: nobody is told.
  std::string registry_directory;
  std::string system_root;  // see plan::ReadMachineFacts
  // Records which tokens go to which experts; may be null. Must outlive the model, and can be
  // finished whenever no request runs.
  experts::TraceWriter* trace = nullptr;
  // Ends loading with kCancelled once it is true; may be null.
  const std::atomic<bool>* cancel = nullptr;
  // Makes the reads' backends; empty means io::MakeBackend. Tests put faults here.
  std::function<Result<std::unique_ptr<io::ReadBackend>>(size_t depth)> make_backend;
};

// Not thread-safe, like the model in it.
class LoadedModel {
 public:
  // Opens, plans and loads. `progress` (may be empty) is told bytes done and bytes in all of the
  // trunk. `notes` receives what an operator should know.
  static Result<std::unique_ptr<LoadedModel>> Load(
      const LoadOptions& options, const std::function<void(uint64_t, uint64_t)>& progress,
      std::vector<std::string>& notes);

  const checkpoint::Checkpoint& checkpoint() const { return *checkpoint_; }
  const checkpoint::ModelConfig& config() const { return checkpoint_->config(); }
  const plan::Plan& plan() const { return plan_; }
  const kernels::KernelTable& kernels() const { return *kernels_; }
  // Idle between passes.
  ThreadPool& threads() { return *threads_; }
  std::string_view io_name() const { return io_name_; }
  model::Model& model() { return *model_; }
  const experts::ExpertStore& experts() const { return *store_; }
  std::vector<experts::NgramStats> ngram_stats() const;

  // What the governor may change, how far, and what it is now.
  plan::GovernorLimits governor_limits() const;
  plan::CacheSizes cache_sizes() const;
  // Between passes. On an error some caches have their new sizes and some not.
  Status Resize(const plan::CacheSizes& sizes);
  struct ResizeStats {
    uint64_t shrinks = 0;  // of the pool
    uint64_t grows = 0;
    uint32_t least_slots = 0;  // that it had at any time
  };
  const ResizeStats& resize_stats() const { return resize_stats_; }

  // kNotFound when the directory has no tokenizer.json: such a model takes ids only.
  Result<const text::Tokenizer*> tokenizer() const;
  const checkpoint::GenerationConfig& generation_config() const { return generation_config_; }

 private:
  using Copies = std::vector<std::pair<const io::File*, const io::File*>>;

  LoadedModel() = default;
  Status MakePlan(const LoadOptions& options, std::vector<std::string>& notes);
  Status OpenMirror(const std::string& directory);
  Status LoadTokenizer();
  void LockMemory(std::vector<std::string>& notes);
  Status LoadStores(const LoadOptions& options, std::vector<std::string>& notes);

  std::unique_ptr<checkpoint::Checkpoint> checkpoint_;
  std::vector<std::unique_ptr<io::File>> mirror_files_;
  Copies copies_;  // files of the checkpoint, and theirs in the mirror
  plan::Plan plan_;
  plan::MachineFacts machine_;
  std::unique_ptr<EngineEntry> entry_;  // among those that run on this machine
  ResizeStats resize_stats_;
  bool locked_ = false;  // what was allocated when it was loaded
  const kernels::KernelTable* kernels_ = nullptr;
  std::string io_name_;
  std::unique_ptr<ThreadPool> threads_;
  std::unique_ptr<experts::ExpertStore> store_;
  std::vector<std::unique_ptr<experts::NgramStore>> ngrams_;
  std::unique_ptr<model::Model> model_;
  std::optional<text::Tokenizer> tokenizer_;
  checkpoint::GenerationConfig generation_config_;
};

}  // namespace slotstream::engine
