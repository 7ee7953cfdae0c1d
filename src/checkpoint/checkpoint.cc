#include "checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <filesystem>

#include "checkpoint/original_checkpoint.h"
#include "checkpoint/packed_checkpoint.h"

namespace slotstream::checkpoint {

Status CheckCancel(const std::atomic<bool>* cancel) {
  if (cancel == nullptr || !cancel->load(std::memory_order_relaxed)) return {};
  return Fail(ErrorCode::kCancelled, "loading was cancelled");
}

Result<Form> DetectForm(const std::string& directory) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (fs::exists(fs::path(directory) / kManifestFile, ignored)) return Form::kPacked;
  if (fs::exists(fs::path(directory) / "config.json", ignored)) return Form::kOriginal;
  return Fail(ErrorCode::kNotFound,
              fmt::format("{}: no checkpoint: neither {} (packed) nor config.json (original) is "
                          "there",
                          directory, kManifestFile));
}

Result<std::unique_ptr<Checkpoint>> Checkpoint::Open(const std::string& directory,
                                                     const OpenOptions& options) {
  SS_ASSIGN_OR_RETURN(const Form form, DetectForm(directory));
  if (form == Form::kPacked) return PackedCheckpoint::Open(directory, options);
  return OriginalCheckpoint::Open(directory, options);
}

}  // namespace slotstream::checkpoint
