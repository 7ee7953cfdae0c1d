// A checkpoint made ready to run: opened, planned, loaded, with everything that a pass needs.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "experts/expert_store.h"
#include "experts/ngram_store.h"
#include "experts/trace_writer.h"
#include "io/backend.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "plan/plan.h"
#include "text/tokenizer.h"

namespace slotstream::engine {

struct LoadOptions {
  std::string directory;
  plan::Wishes wishes;
  io::BackendKind io = io::BackendKind::kAuto;
  std::string kernels = "auto";  // see kernels::SelectKernels
  // Records which tokens go to which experts; may be null. Must outlive the model, and can be
  // finished whenever no request runs.
  experts::TraceWriter* trace = nullptr;
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

  // kNotFound when the directory has no tokenizer.json: such a model takes ids only.
  Result<const text::Tokenizer*> tokenizer() const;
  const checkpoint::GenerationConfig& generation_config() const { return generation_config_; }

 private:
  LoadedModel() = default;
  Status LoadTokenizer();
  Status LoadStores(const LoadOptions& options, std::vector<std::string>& notes);

  std::unique_ptr<checkpoint::Checkpoint> checkpoint_;
  plan::Plan plan_;
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
