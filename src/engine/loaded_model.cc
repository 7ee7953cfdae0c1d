#include "engine/loaded_model.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/clock.h"
#include "io/file.h"
#include "io/mirror_backend.h"
#include "io/read_queue.h"
#include "plan/warnings.h"

namespace slotstream::engine {
namespace {

// Reads in flight. A record of 2.76 MB is eleven reads of at most 256 KiB, so this keeps a few
// records under way; the disks measured reach their full rate with one.
constexpr size_t kExpertDepth = 64;
constexpr size_t kNgramDepth = 256;
constexpr size_t kLoadDepth = 16;

// What an n-gram cache keeps under pressure: the rows of a few tokens.
constexpr uint64_t kLeastNgramRows = 1024;

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
  SS_RETURN_IF_ERROR(loaded->MakePlan(options, notes));
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
  loaded->LockMemory(notes);
  if (options.trace != nullptr) {
    SS_RETURN_IF_ERROR(options.trace->Begin({.layers = loaded->config().num_layers(),
                                             .experts = loaded->config().num_experts,
                                             .top_k = loaded->config().experts_per_token,
                                             .sweep_rows = loaded->plan_.sweep_rows}));
  }
  return loaded;
}

// Under the registry's lock, if there is one: nobody else plans with the same bytes meanwhile.
Status LoadedModel::MakePlan(const LoadOptions& options, std::vector<std::string>& notes) {
  machine_ = plan::ReadMachineFacts(options.system_root);
  std::optional<EngineRegistry> registry;
  if (!options.registry_directory.empty()) {
    auto opened = EngineRegistry::Open(options.registry_directory);
    if (opened) {
      registry = std::move(*opened);
      SetPromised(registry->engines(), machine_);
    } else {
      notes.push_back(
          fmt::format("other engines on this machine cannot be seen: {}", opened.error().message));
    }
  }
  SS_ASSIGN_OR_RETURN(plan_, plan::MakePlan(*checkpoint_, machine_, options.wishes));
  resize_stats_.least_slots = plan_.slots;
  notes.insert(notes.end(), plan_.notes.begin(), plan_.notes.end());
  if (!registry) return {};
  for (const RunningEngine& engine : registry->engines()) {
    notes.push_back(fmt::format(
        "another slotstream, process {}, has planned with {} and uses {}; "
        "this one plans with what is left",
        engine.pid, plan::FormatBytes(engine.planned), plan::FormatBytes(engine.resident)));
  }
  auto entry = registry->Enter(plan_.total);
  if (entry) {
    entry_ = std::move(*entry);
  } else {
    notes.push_back(fmt::format("other engines on this machine cannot see this one: {}",
                                entry.error().message));
  }
  return {};
}

// Swapped-out weights would come back page by page, slower than from the model's own files. Without
// swap there is nothing to prevent.
void LoadedModel::LockMemory(std::vector<std::string>& notes) {
  if (machine_.memory.swaps.empty()) return;
  if (auto warning = plan::LockWarning(machine_, plan_.total)) {
    notes.push_back(std::move(*warning));
    return;
  }
  // Each page from when it is first touched: slots take memory when they are filled.
  locked_ = mlockall(MCL_CURRENT | MCL_ONFAULT) == 0;
  if (!locked_) notes.push_back("the system does not allow to lock the model's memory");
}

plan::GovernorLimits LoadedModel::governor_limits() const {
  const plan::CacheSizes planned = cache_sizes();
  plan::GovernorLimits limits{.least = planned, .most = planned, .costs = {}, .reserve = 0};
  if (plan_.fixed) return limits;
  limits.least.slots = plan_.least_slots;
  limits.most.slots = plan_.most_slots;
  limits.least.ngram_rows = std::min<uint64_t>(kLeastNgramRows, planned.ngram_rows);
  limits.costs.slot_bytes = plan_.slot_bytes;
  for (size_t i = 0; i < ngrams_.size(); ++i) {
    // Each row of the cache also has its number.
    limits.costs.ngram_row_bytes += checkpoint_->ngrams(i).row_bytes() + sizeof(uint64_t);
  }
  limits.reserve = plan::ReserveOf(machine_.memory_total);
  return limits;
}

plan::CacheSizes LoadedModel::cache_sizes() const {
  return {.prefix_bytes = 0,
          .ngram_rows = ngrams_.empty() ? 0 : ngrams_.front()->cache_rows(),
          .slots = store_->pool().slots()};
}

Status LoadedModel::Resize(const plan::CacheSizes& sizes) {
  const uint32_t before = store_->pool().slots();
  for (const auto& ngram : ngrams_) SS_RETURN_IF_ERROR(ngram->Resize(sizes.ngram_rows));
  if (sizes.slots == before) return {};
  SS_RETURN_IF_ERROR(store_->Resize(sizes.slots));
  ++(sizes.slots < before ? resize_stats_.shrinks : resize_stats_.grows);
  resize_stats_.least_slots = std::min(resize_stats_.least_slots, sizes.slots);
  // What the pool gave back was unlocked, and may now be in use again.
  if (locked_ && sizes.slots > before) mlockall(MCL_CURRENT | MCL_ONFAULT);
  return {};
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
                           .most_slots = plan_.most_slots,
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
