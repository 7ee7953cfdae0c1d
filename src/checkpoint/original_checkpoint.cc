#include "checkpoint/original_checkpoint.h"

#include <fmt/format.h>

#include "checkpoint/original_formats.h"
#include "checkpoint/part_reader.h"

namespace slotstream::checkpoint {
namespace {

// The published config has 33 KB, most of it quantization overrides.
constexpr size_t kMaxConfigBytes = 16 << 20;

// One error for all that is wrong: its code is the first problem's.
Status Combined(const std::string& directory, const OriginalContents& contents) {
  Report lines;
  for (const Error& error : contents.index.problems) lines.Add(error.message);
  for (std::string& line : contents.inventory.problems.Lines()) lines.Add(std::move(line));
  if (lines.empty()) return {};
  const ErrorCode code =
      contents.index.problems.empty() ? ErrorCode::kCorrupt : contents.index.problems.front().code;
  std::string message = fmt::format("{} is not usable:", directory);
  for (const std::string& line : lines.Lines()) message += "\n  " + line;
  return Fail(code, std::move(message));
}

}  // namespace

Result<OriginalContents> ExamineOriginal(const std::string& directory, bool direct) {
  const std::string path = directory + "/config.json";
  SS_ASSIGN_OR_RETURN(const std::string text, io::ReadWholeFile(path, kMaxConfigBytes));
  OriginalContents out;
  SS_ASSIGN_OR_RETURN(out.config, ParseConfig(text, path));
  out.index = OpenTensorIndex(directory, direct);
  SS_RETURN_IF_ERROR(CheckNaming(out.index, directory));
  out.inventory = TakeInventory(out.config, out.index);
  SS_RETURN_IF_ERROR(CheckContents(out.config, out.index, out.inventory));
  return out;
}

Result<std::unique_ptr<OriginalCheckpoint>> OriginalCheckpoint::Open(const std::string& directory,
                                                                     const OpenOptions& options) {
  SS_ASSIGN_OR_RETURN(OriginalContents contents, ExamineOriginal(directory, options.direct));
  SS_RETURN_IF_ERROR(Combined(directory, contents));
  return std::unique_ptr<OriginalCheckpoint>(
      new OriginalCheckpoint(directory, std::move(contents)));
}

OriginalCheckpoint::OriginalCheckpoint(std::string directory, OriginalContents contents)
    : Checkpoint(std::move(directory), std::move(contents.config)),
      index_(std::move(contents.index)),
      inventory_(std::move(contents.inventory)),
      experts_(MakeOriginalExperts(config(), index_, inventory_)) {
  for (const NgramTableSource& table : inventory_.ngrams) {
    ngrams_.push_back(MakeOriginalNgrams(index_, table));
  }
}

const PartInventory* OriginalCheckpoint::part(Part part) const {
  switch (part) {
    case Part::kTrunk:
      return &inventory_.trunk;
    case Part::kDraft:
      return inventory_.draft ? &*inventory_.draft : nullptr;
    case Part::kVision:
      return inventory_.vision ? &*inventory_.vision : nullptr;
  }
  return nullptr;
}

const ResidentLayout* OriginalCheckpoint::layout(Part which) const {
  const PartInventory* found = part(which);
  return found == nullptr ? nullptr : &found->layout;
}

Result<ResidentPart> OriginalCheckpoint::Load(Part which, io::ReadQueue& queue,
                                              const std::function<void(uint64_t)>& progress,
                                              const std::atomic<bool>* cancel) const {
  const PartInventory* source = part(which);
  if (source == nullptr) {
    return Fail(ErrorCode::kNotFound, fmt::format("{} has no such part", directory()));
  }
  SS_ASSIGN_OR_RETURN(AlignedBuffer memory,
                      AlignedBuffer::Allocate(source->layout.bytes, "resident weights"));
  const PartReader reader(index_, inventory_, *source);
  SS_RETURN_IF_ERROR(reader.Read(
      queue, 0, [&](uint64_t offset, size_t bytes) { return memory.span().subspan(offset, bytes); },
      [&](uint64_t offset, size_t bytes) -> Status {
        if (progress) progress(offset + bytes);
        return CheckCancel(cancel);
      }));
  return ResidentPart(source->layout, std::move(memory));
}

}  // namespace slotstream::checkpoint
