// The packed form: one read per expert, one page per n-gram row, a checksum over every byte.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/manifest.h"
#include "io/file.h"

namespace slotstream::checkpoint {

class PackedCheckpoint final : public Checkpoint {
 public:
  // Reads manifest, side files and checksums.bin, and compares the sizes of the data files.
  // See Checkpoint::Open.
  static Result<std::unique_ptr<PackedCheckpoint>> Open(const std::string& directory,
                                                        const OpenOptions& options);

  Form form() const override { return Form::kPacked; }
  const ResidentLayout* layout(Part part) const override { return manifest_.layout.part(part); }
  Result<ResidentPart> Load(Part part, io::ReadQueue& queue,
                            const std::function<void(uint64_t)>& progress,
                            const std::atomic<bool>* cancel = nullptr) const override;
  std::vector<const io::File*> streamed_files() const override;
  const ExpertFormat& experts() const override { return *experts_; }
  const NgramFormat& ngrams(size_t i) const override { return *ngrams_[i]; }

  const Manifest& manifest() const { return manifest_; }

 private:
  struct Files {
    std::array<std::unique_ptr<io::File>, 3> parts;  // null where the part is absent
    std::unique_ptr<io::File> experts;
    std::unique_ptr<io::File> ngrams;  // null without n-gram memory
  };

  PackedCheckpoint(std::string directory, ModelConfig config, Manifest manifest, Files files,
                   std::vector<uint32_t> checksums);
  Status CheckPartChunk(Part part, uint64_t offset, std::span<const std::byte> bytes) const;

  Manifest manifest_;
  Files files_;
  std::vector<uint32_t> checksums_;
  std::unique_ptr<ExpertFormat> experts_;
  std::vector<std::unique_ptr<NgramFormat>> ngrams_;
};

}  // namespace slotstream::checkpoint
