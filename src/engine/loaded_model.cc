#include "engine/loaded_model.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "base/clock.h"
#include "io/file.h"
#include "io/mirror_backend.h"
#include "io/read_queue.h"

namespace slotstream::engine {
namespace {

// Reads in flight. A record of 2.76 MB is eleven reads of at most 256 KiB, so this keeps a few
// records under way; the disks measured reach their full rate with one.
constexpr size_t kExpertDepth = 64;
constexpr size_t kNgramDepth = 256;
constexpr size_t kLoadDepth = 16;

constexpr size_t kMaxConfigBytes = 1 << 20;
constexpr size_t kMaxManifestBytes = 1 << 26;

// `copies`: see io::MirrorBackend.
Result<std::unique_ptr<io::ReadQueue>> MakeQueue(
    const LoadOptions& options, size_t depth, std::string* note,
    const std::vector<std::pair<const io::File*, const io::File*>>& copies) {
  Result<std::unique_ptr<io::ReadBackend>> backend =
      options.make_backend ? options.make_backend(depth) : io::MakeBackend(options.io, depth, note);
  if (!backend) return std::unexpected(std::move(backend).error());
  if (!copies.empty()) {
    backend = std::make_unique<io::MirrorBackend>(std::move(*backend), copies, Clock::Steady());
  }
  return std::make_unique<io::ReadQueue>(std::move(*backend), Clock::Steady());
}

}  // namespace

Result<std::unique_ptr<LoadedModel>> LoadedModel::Load(
    const LoadOptions& options, const std::function<void(uint64_t, uint64_t)>& progress,
    std::vector<std::string>& notes) {
  auto loaded = std::unique_ptr<LoadedModel>(new LoadedModel);
  SS_ASSIGN_OR_RETURN(loaded->kernels_, kernels::SelectKernels(options.kernels));
  SS_ASSIGN_OR_RETURN(loaded->checkpoint_, checkpoint::Checkpoint::Open(options.directory));
  const checkpoint::Checkpoint& checkpoint = *loaded->checkpoint_;
  SS_ASSIGN_OR_RETURN(loaded->plan_,
                      plan::MakePlan(checkpoint, plan::ReadMachineFacts(), options.wishes));
  if (checkpoint.form() == checkpoint::Form::kOriginal) {
    notes.push_back(
        "this is an original checkpoint, which has no checksums and needs nine reads per expert; "
        "`slotstream pack` makes a packed one");
  }
  if (!options.mirror.empty()) {
    SS_RETURN_IF_ERROR(loaded->OpenMirror(options.mirror));
    notes.push_back(fmt::format("experts are read from here and from {}", options.mirror));
  }
  SS_RETURN_IF_ERROR(checkpoint::CheckCancel(options.cancel));
  SS_RETURN_IF_ERROR(loaded->LoadTokenizer());
  SS_RETURN_IF_ERROR(checkpoint::CheckCancel(options.cancel));
  SS_RETURN_IF_ERROR(loaded->LoadStores(options, notes));

  loaded->threads_ = std::make_unique<ThreadPool>(loaded->plan_.threads);
  const uint64_t trunk_bytes = checkpoint.layout(checkpoint::Part::kTrunk)->bytes;
  SS_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadQueue> queue,
                      MakeQueue(options, kLoadDepth, nullptr, {}));
  const auto report = [&](uint64_t done) {
    if (progress) progress(done, trunk_bytes);
  };
  SS_ASSIGN_OR_RETURN(checkpoint::ResidentPart trunk,
                      checkpoint.Load(checkpoint::Part::kTrunk, *queue, report, options.cancel));
  std::vector<experts::NgramStore*> ngrams;
  for (const auto& store : loaded->ngrams_) ngrams.push_back(store.get());
  SS_ASSIGN_OR_RETURN(loaded->model_,
                      model::Model::Create(checkpoint, std::move(trunk), *loaded->kernels_,
                                           *loaded->threads_, *loaded->store_, ngrams,
                                           {.max_rows = loaded->plan_.pass_rows,
                                            .compute = loaded->plan_.compute,
                                            .every_mode = loaded->plan_.every_mode,
                                            .trace = options.trace}));
  if (options.trace != nullptr) {
    SS_RETURN_IF_ERROR(options.trace->Begin({.layers = loaded->config().num_layers(),
                                             .experts = loaded->config().num_experts,
                                             .top_k = loaded->config().experts_per_token,
                                             .sweep_rows = loaded->plan_.sweep_rows}));
  }
  return loaded;
}

// Equal manifests mean equal checksums of every byte, and each record is checked as it arrives from
// either disk: a copy that is not one shows then.
Status LoadedModel::OpenMirror(const std::string& directory) {
  const std::vector<const io::File*> files = checkpoint_->streamed_files();
  if (files.empty()) {
    return Fail(ErrorCode::kUnsupported,
                fmt::format("{} is an original checkpoint, which cannot be mirrored: it has no "
                            "checksums; `slotstream pack` makes a packed one",
                            checkpoint_->directory()));
  }
  for (const char* name : {"manifest.json", "checksums.bin"}) {
    const auto read = [name](const std::string& from) {
      return io::ReadWholeFile(from + "/" + name, kMaxManifestBytes);
    };
    SS_ASSIGN_OR_RETURN(const std::string ours, read(checkpoint_->directory()));
    SS_ASSIGN_OR_RETURN(const std::string theirs, read(directory));
    if (ours == theirs) continue;
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is no copy of {}: their {} differ; copy the whole directory",
                            directory, checkpoint_->directory(), name));
  }
  for (const io::File* file : files) {
    const std::string path =
        directory + "/" + std::filesystem::path(file->path()).filename().string();
    SS_ASSIGN_OR_RETURN(mirror_files_.emplace_back(), io::File::Open(path, file->direct()));
    const io::File& copy = *mirror_files_.back();
    if (copy.size() != file->size()) {
      return Fail(ErrorCode::kCorrupt, fmt::format("{} has {} bytes and {} has {}: copy it again",
                                                   path, copy.size(), file->path(), file->size()));
    }
    copies_.emplace_back(file, &copy);
  }
  return {};
}

Status LoadedModel::LoadTokenizer() {
  const std::filesystem::path directory = checkpoint_->directory();
  const std::filesystem::path tokenizer = directory / "tokenizer.json";
  if (std::filesystem::exists(tokenizer)) {
    SS_ASSIGN_OR_RETURN(tokenizer_, text::Tokenizer::Load(tokenizer));
  }
  const std::string generation = directory / "generation_config.json";
  if (std::filesystem::exists(generation)) {
    SS_ASSIGN_OR_RETURN(std::string json, io::ReadWholeFile(generation, kMaxConfigBytes));
    SS_ASSIGN_OR_RETURN(generation_config_, checkpoint::ParseGenerationConfig(json, generation));
  }
  if (generation_config_.eos_token_ids.empty()) {
    generation_config_.eos_token_ids.push_back(config().eos_token_id);
  }
  return {};
}

Status LoadedModel::LoadStores(const LoadOptions& options, std::vector<std::string>& notes) {
  std::string note;
  SS_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadQueue> queue,
                      MakeQueue(options, kExpertDepth, &note, copies_));
  if (!note.empty()) notes.push_back(note);
  io_name_ = queue->backend_name();
  SS_ASSIGN_OR_RETURN(store_,
                      experts::ExpertStore::Create(
                          checkpoint_->experts(), std::move(queue),
                          {.layers = config().num_layers(),
                           .token_needs = config().num_layers() * config().experts_per_token,
                           .slots = plan_.slots,
                           .sweep_records = plan_.sweep_records,
                           .sweep_rows = plan_.sweep_rows},
                          Clock::Steady()));
  for (size_t i = 0; i < config().ple_layers.size(); ++i) {
    SS_ASSIGN_OR_RETURN(queue, MakeQueue(options, kNgramDepth, nullptr, copies_));
    SS_ASSIGN_OR_RETURN(ngrams_.emplace_back(),
                        experts::NgramStore::Create(checkpoint_->ngrams(i), std::move(queue),
                                                    plan_.ngram_cache_rows, plan_.ngram_areas));
  }
  return {};
}

std::vector<experts::NgramStats> LoadedModel::ngram_stats() const {
  std::vector<experts::NgramStats> stats;
  for (const auto& store : ngrams_) stats.push_back(store->stats());
  return stats;
}

Result<const text::Tokenizer*> LoadedModel::tokenizer() const {
  if (!tokenizer_) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("{} has no tokenizer.json, so this model takes token ids only (--ids)",
                            checkpoint_->directory()));
  }
  return &*tokenizer_;
}

}  // namespace slotstream::engine
