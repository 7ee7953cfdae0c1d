#include "checkpoint/outline.h"

#include <string>
#include <utility>
#include <vector>

#include "checkpoint/synth_layout.h"

namespace slotstream::checkpoint {
namespace {

Status NoBytes() {
  return Fail(ErrorCode::kUnsupported, "this checkpoint has sizes, but no bytes to read");
}

class OutlineExperts final : public ExpertFormat {
 public:
  explicit OutlineExperts(const PackedLayout& layout)
      : ExpertFormat(layout.expert, layout.expert_layers, layout.experts) {}
  size_t staging_bytes() const override { return 0; }
  void AppendPieces(uint32_t, uint32_t, std::vector<ReadPiece>&) const override {}
  Status Finish(uint32_t, uint32_t, std::span<const std::byte>,
                std::span<std::byte>) const override {
    return NoBytes();
  }
  uint64_t FileOrder(uint32_t layer, uint32_t expert) const override {
    return uint64_t{layer} * experts() + expert;
  }
};

class OutlineNgrams final : public NgramFormat {
 public:
  explicit OutlineNgrams(const NgramTableLayout& table)
      : NgramFormat(table.rows, table.width, table.group) {}
  size_t staging_bytes() const override { return kPageSize; }
  void AppendPieces(uint64_t, std::vector<ReadPiece>&) const override {}
  Status Finish(uint64_t, std::span<const std::byte>, std::span<std::byte>) const override {
    return NoBytes();
  }
};

class Outline final : public Checkpoint {
 public:
  Outline(std::string_view name, ModelConfig config, PackedLayout layout)
      : Checkpoint(std::string(name), std::move(config)),
        layout_(std::move(layout)),
        experts_(layout_) {
    for (const NgramTableLayout& table : layout_.ngrams) ngrams_.emplace_back(table);
  }
  Form form() const override { return Form::kPacked; }
  const ResidentLayout* layout(Part part) const override { return layout_.part(part); }
  Result<ResidentPart> Load(Part, io::ReadQueue&, const std::function<void(uint64_t)>&,
                            const std::atomic<bool>*) const override {
    return std::unexpected(NoBytes().error());
  }
  const ExpertFormat& experts() const override { return experts_; }
  const NgramFormat& ngrams(size_t i) const override { return ngrams_[i]; }

 private:
  PackedLayout layout_;
  OutlineExperts experts_;
  std::vector<OutlineNgrams> ngrams_;
};

}  // namespace

Result<std::unique_ptr<Checkpoint>> OutlineOf(std::string_view json, std::string_view name) {
  SS_ASSIGN_OR_RETURN(ModelConfig config, ParseConfig(json, name));
  SynthOptions options;
  options.config_name = name;
  SS_ASSIGN_OR_RETURN(PackedLayout layout, SyntheticLayout(config, options));
  return std::unique_ptr<Checkpoint>(new Outline(name, std::move(config), std::move(layout)));
}

}  // namespace slotstream::checkpoint
