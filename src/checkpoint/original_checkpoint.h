// The original form: an MLX 4-bit safetensors directory, read as it was published.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/inventory.h"

namespace slotstream::checkpoint {

// The published directory before it is known to be whole: everything that can be said about it.
struct OriginalContents {
  ModelConfig config;
  TensorIndex index;
  Inventory inventory;  // contents checked unless there are problems
};
// Fails where not even an inventory can be taken (config.json, foreign layout); problems of files
// and tensors are in index.problems and inventory.problems.
Result<OriginalContents> ExamineOriginal(const std::string& directory, bool direct);

class OriginalCheckpoint final : public Checkpoint {
 public:
  // See Checkpoint::Open.
  static Result<std::unique_ptr<OriginalCheckpoint>> Open(const std::string& directory,
                                                          const OpenOptions& options);

  Form form() const override { return Form::kOriginal; }
  const ResidentLayout* layout(Part part) const override;
  Result<ResidentPart> Load(Part part, io::ReadQueue& queue,
                            const std::function<void(uint64_t)>& progress,
                            const std::atomic<bool>* cancel = nullptr) const override;
  const ExpertFormat& experts() const override { return *experts_; }
  const NgramFormat& ngrams(size_t i) const override { return *ngrams_[i]; }

  const TensorIndex& index() const { return index_; }
  const Inventory& inventory() const { return inventory_; }
  // nullptr when the checkpoint lacks the part.
  const PartInventory* part(Part part) const;

 private:
  OriginalCheckpoint(std::string directory, OriginalContents contents);

  TensorIndex index_;
  Inventory inventory_;
  std::unique_ptr<ExpertFormat> experts_;
  std::vector<std::unique_ptr<NgramFormat>> ngrams_;
};

}  // namespace slotstream::checkpoint
