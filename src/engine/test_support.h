// What the engine's tests share: the models at hand, a place for files, a run whose bits can be
// compared.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/pack_writer.h"
#include "engine/loaded_model.h"
#include "state/sequence.h"

namespace slotstream::engine {

inline std::string MiniatureDirectory() {
  return std::string(SLOTSTREAM_SOURCE_DIR) + "/models/miniature";
}
inline std::string TinyDirectory() {
  return std::string(SLOTSTREAM_SOURCE_DIR) + "/tests/goldens/tiny-a";
}

// A directory that goes with the object.
class ScratchDirectory {
 public:
  ScratchDirectory()
      : path_(std::filesystem::temp_directory_path() /
              ("slotstream-test-" + std::to_string(getpid()) + "-" +
               std::to_string(reinterpret_cast<uintptr_t>(this)))) {
    std::filesystem::create_directories(path_);
  }
  ~ScratchDirectory() { std::filesystem::remove_all(path_); }
  std::string Path(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

// Packs `source` into scratch; returns the packed directory.
inline std::string PackInto(const ScratchDirectory& scratch, const std::string& source) {
  const std::string packed = scratch.Path("packed");
  auto summary = checkpoint::Pack(source, packed, {});
  EXPECT_TRUE(summary) << summary.error().message;
  return packed;
}

inline Result<std::unique_ptr<LoadedModel>> LoadForTest(const LoadOptions& options) {
  std::vector<std::string> notes;
  return LoadedModel::Load(options, {}, notes);
}

// Ids that look like nothing in particular, with ends of text among them.
inline std::vector<uint32_t> TestIds(const checkpoint::ModelConfig& config, size_t count) {
  std::vector<uint32_t> ids(count);
  uint32_t state = 12345;
  for (size_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    ids[i] = (state >> 8) % config.vocab_size;
    if (i % 37 == 5) ids[i] = config.eos_token_id;
  }
  return ids;
}

// The logits of every id, read in passes of at most `pass_rows`, the last `single` ids one by one.
inline Result<std::vector<float>> Logits(LoadedModel& loaded, std::span<const uint32_t> ids,
                                         size_t pass_rows, size_t single) {
  const size_t vocab = loaded.config().vocab_size;
  std::vector<float> logits(ids.size() * vocab);
  state::Sequence sequence(loaded.config());
  for (size_t first = 0; first < ids.size();) {
    const size_t prompt = ids.size() - single;
    const size_t rows = first < prompt ? std::min(pass_rows, prompt - first) : 1;
    model::Pass pass;
    pass.ids = ids.subspan(first, rows);
    pass.logit_rows = rows;
    pass.logits = logits.data() + first * vocab;
    pass.admit_experts = first + rows == prompt;
    pass.rows_after = first + rows < prompt ? prompt - first - rows : 0;
    SS_RETURN_IF_ERROR(loaded.model().Forward(pass, sequence));
    first += rows;
  }
  return logits;
}

}  // namespace slotstream::engine
