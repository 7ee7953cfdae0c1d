#include "bench/state_command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/thread_pool.h"
#include "bench/rounds.h"
#include "checkpoint/published_config.h"
#include "io/file.h"
#include "io/file_writer.h"
#include "io/owned_fd.h"
#include "state/prefix_store.h"

namespace slotstream::bench {
namespace {

namespace fs = std::filesystem;
using state::PrefixKey;
using state::Sequence;

constexpr int kRounds = 5;
constexpr size_t kQuickTokens = 64;

double Seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// A state as after `tokens` tokens; its numbers are nobody's.
std::shared_ptr<Sequence> MakeState(const checkpoint::ModelConfig& config, size_t tokens) {
  auto sequence = std::make_shared<Sequence>(config);
  sequence->BeginPass();
  const auto fill = [](state::RowBlocks& rows, size_t count) {
    while (rows.size() < count) {
      const std::span<float> part = rows.AppendRows(count - rows.size());
      for (size_t i = 0; i < part.size(); ++i) part[i] = static_cast<float>(i);
    }
  };
  for (state::AttentionState& layer : sequence->attention) {
    fill(layer.keys, tokens);
    fill(layer.values, tokens);
    fill(layer.index_keys, tokens / config.indexer_compress_ratio);
  }
  for (state::LinearState& layer : sequence->linear) std::ranges::fill(layer.recurrent, 0.5f);
  sequence->EndPass(tokens, static_cast<int32_t>(tokens));
  return sequence;
}

// So that what is read next comes from the disk.
void DropFromPageCache(const std::string& directory) {
  for (const auto& entry : fs::directory_iterator(directory)) {
    const io::OwnedFd fd(open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
    if (fd.valid()) posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
  }
}

// Reads the stored state of `keys` and, as a pass does, takes a layer and computes it, the next and
// so on: `seconds` a layer on all threads. Returns what was waited for layers.
Result<double> LoadBesidePass(state::PrefixStore& store, std::span<const PrefixKey> keys,
                              const checkpoint::ModelConfig& config, ThreadPool& threads,
                              double seconds) {
  SS_ASSIGN_OR_RETURN(const auto arriving, store.StartRestore(keys, config, /*keep=*/true));
  Sequence sequence = arriving->Begin();
  for (uint32_t layer = 0; layer < config.num_layers(); ++layer) {
    SS_RETURN_IF_ERROR(arriving->Take(layer, nullptr, sequence));
    if (seconds == 0) continue;
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    threads.ParallelFor(static_cast<size_t>(threads.threads()), [end](size_t) {
      while (std::chrono::steady_clock::now() < end) {
      }
    });
  }
  return static_cast<double>(arriving->waited_nanos()) / 1e9;
}

// Writes what the store wrote as one plain file, synced; the disk's own rate.
Status WritePlainly(const std::string& path, std::span<const std::byte> bytes) {
  SS_ASSIGN_OR_RETURN(const auto writer, io::FileWriter::Create(path));
  SS_RETURN_IF_ERROR(writer->Append(bytes));
  return writer->Sync();
}

// Reads all files of ours in their order, each in one piece after another.
Status ReadPlainly(const std::string& directory, std::span<std::byte> buffer, ThreadPool& threads) {
  std::vector<std::unique_ptr<io::File>> files;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.path().filename() == "lock") continue;
    SS_ASSIGN_OR_RETURN(files.emplace_back(), io::File::Open(entry.path(), false));
  }
  struct Part {
    const io::File* file;
    uint64_t offset, bytes, to;
  };
  std::vector<Part> parts;
  uint64_t to = 0;
  for (const auto& file : files) {
    constexpr uint64_t kPart = 8 << 20;
    for (uint64_t at = 0; at < file->size(); at += kPart) {
      parts.push_back({file.get(), at, std::min(kPart, file->size() - at), to});
      to += parts.back().bytes;
    }
  }
  std::vector<Status> results(parts.size());
  threads.ParallelFor(parts.size(), [&](size_t i) {
    results[i] =
        parts[i].file->ReadAt(parts[i].offset, buffer.subspan(parts[i].to, parts[i].bytes));
  });
  for (Status& result : results) SS_RETURN_IF_ERROR(std::move(result));
  return {};
}

}  // namespace

Result<std::vector<Row>> MeasureState(const StateOptions& options) {
  SS_ASSIGN_OR_RETURN(const Setup setup, MakeSetup(options.common));
  const std::string json = checkpoint::PublishedConfig().dump();
  SS_ASSIGN_OR_RETURN(const checkpoint::ModelConfig config,
                      checkpoint::ParseConfig(json, "the published configuration"));
  const size_t tokens = options.common.quick ? kQuickTokens : options.tokens;
  const int rounds = options.common.quick        ? 1
                     : options.common.rounds > 0 ? options.common.rounds
                                                 : kRounds;
  const int thread_count = setup.threads.back();
  ThreadPool threads(thread_count);
  const std::shared_ptr<Sequence> sequence = MakeState(config, tokens);
  const uint64_t fixed = state::SequenceBytes(config, 0);
  std::vector<PrefixKey> keys(tokens);
  for (size_t i = 0; i < tokens; ++i) keys[i] = i;

  std::vector<std::byte> from(fixed, std::byte{1}), to(fixed);
  std::vector<std::byte> disk(sequence->bytes() + (uint64_t{64} << 20), std::byte{2});
  std::map<std::string, std::vector<double>> rates;  // GB/s by name
  std::vector<double> hidden;                        // of the load, behind a pass
  const auto note = [&rates](const std::string& name, uint64_t bytes, double seconds) {
    rates[name].push_back(static_cast<double>(bytes) / seconds / 1e9);
  };
  const std::string directory = options.directory + "/slotstream-bench-state";
  const std::string plain = options.directory + "/slotstream-bench-plain";
  Sequence target(config);
  for (int round = 0; round < rounds; ++round) {
    note("memory copy", fixed, Seconds([&] { std::memcpy(to.data(), from.data(), fixed); }));
    std::optional<Sequence> snapshot;
    note("snapshot", fixed, Seconds([&] { snapshot.emplace(*sequence); }));
    note("restore", fixed, Seconds([&] { target = *snapshot; }));

    fs::remove_all(directory);
    SS_ASSIGN_OR_RETURN(
        const auto store,
        state::PrefixStore::Open(
            {.directory = directory, .min_tokens = 1, .least_free_bytes = 0, .now = [] {
               return int64_t{std::time(nullptr)};
             }}));
    Status status;
    const double save = Seconds([&] {
      const auto saved = store->Save({.keys = keys, .state = sequence, .replies = {}});
      if (!saved) status = std::unexpected(saved.error());
    });
    SS_RETURN_IF_ERROR(status);
    const uint64_t bytes = store->stats().bytes;
    note("save", bytes, save);
    const double write =
        Seconds([&] { status = WritePlainly(plain, std::span(disk).first(bytes)); });
    SS_RETURN_IF_ERROR(status);
    note("disk write", bytes, write);
    fs::remove(plain);

    DropFromPageCache(directory);
    std::vector<PrefixKey> asked = keys;
    asked.push_back(0);
    Result<double> waited = 0.0;
    const double load =
        Seconds([&] { waited = LoadBesidePass(*store, asked, config, threads, 0); });
    if (!waited) return std::unexpected(waited.error());
    note("load", bytes, load);
    // The pass takes as long as the load, the disk is free for it: what the order of layers hides.
    DropFromPageCache(directory);
    SS_ASSIGN_OR_RETURN(const double beside,
                        LoadBesidePass(*store, asked, config, threads, load / config.num_layers()));
    hidden.push_back(1 - beside / load);
    DropFromPageCache(directory);
    const double read = Seconds([&] { status = ReadPlainly(directory, disk, threads); });
    SS_RETURN_IF_ERROR(status);
    note("disk read", bytes, read);
  }
  fs::remove_all(directory);

  std::vector<Row> rows;
  const auto add = [&](const std::string& name, const std::string& roof, int count) {
    Row row{
        .group = "state", .name = name, .mode = "", .isa = "", .threads = count, .rows = tokens};
    row.value = Median(rates.at(name));
    row.unit = "GB/s";
    if (!roof.empty()) row.roof = Median(rates.at(roof));
    row.rounds = row.counted = rounds;
    rows.push_back(std::move(row));
  };
  add("memory copy", "", 1);
  add("snapshot", "memory copy", 1);
  add("restore", "memory copy", 1);
  add("disk write", "", 1);
  add("save", "disk write", 1);
  add("disk read", "", thread_count);
  add("load", "disk read", thread_count);
  Row behind{.group = "state",
             .name = "load, hidden behind a pass as long",
             .mode = "",
             .isa = "",
             .threads = thread_count,
             .rows = tokens};
  behind.value = Median(hidden);
  behind.unit = "of it";
  behind.rounds = behind.counted = rounds;
  rows.push_back(std::move(behind));
  const auto size = [&](const std::string& name, double bytes) {
    Row row{
        .group = "state size", .name = name, .mode = "", .isa = "", .threads = 1, .rows = tokens};
    row.value = bytes;
    row.unit = "bytes";
    row.rounds = row.counted = 1;
    rows.push_back(std::move(row));
  };
  size("fixed part", static_cast<double>(fixed));
  constexpr uint64_t kMany = 1 << 16;
  size("per token", static_cast<double>(state::SequenceBytes(config, kMany) - fixed) /
                        static_cast<double>(kMany));
  return rows;
}

}  // namespace slotstream::bench
