#include "checkpoint/tensor_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "checkpoint/strict_json.h"

namespace slotstream::checkpoint {
namespace {

namespace fs = std::filesystem;

// An index has about 40 bytes per tensor and name; this is far above any.
constexpr size_t kMaxIndexBytes = 100'000'000;

bool IsPlainFileName(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name != "." && name != ".." &&
         std::ranges::none_of(name,
                              [](unsigned char c) { return c < 0x20 || c == '/' || c == '\\'; });
}

bool Exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

void AddFile(const std::string& path, bool direct, TensorIndex& out) {
  auto opened = SafetensorsFile::Open(path, direct);
  if (!opened) {
    out.AddProblem(std::move(opened).error());
    return;
  }
  const auto file = static_cast<uint32_t>(out.files.size());
  for (const auto& [name, info] : (*opened)->tensors()) {
    auto [at, added] = out.tensors.try_emplace(name, TensorRef{file, info});
    if (added) continue;
    out.AddProblem(
        Error{ErrorCode::kCorrupt, fmt::format("tensor {} is both in {} and in {}", name,
                                               out.files[at->second.file]->file().path(), path)});
  }
  out.files.push_back(std::move(*opened));
}

void AddShards(const std::string& directory, const std::string& index_path, bool direct,
               TensorIndex& out) {
  auto text = io::ReadWholeFile(index_path, kMaxIndexBytes);
  if (!text) return out.AddProblem(std::move(text).error());
  auto weight_map = ParseWeightMap(*text, index_path);
  if (!weight_map) return out.AddProblem(std::move(weight_map).error());

  std::map<std::string, std::string> shards;  // with one tensor each, to name in errors
  for (const auto& [tensor, shard] : *weight_map) shards.try_emplace(shard, tensor);
  std::set<std::string> unreadable;
  for (const auto& [shard, tensor] : shards) {
    const std::string path = directory + "/" + shard;
    const size_t before = out.problems.size();
    if (Exists(path)) {
      AddFile(path, direct, out);
    } else {
      out.AddProblem(
          Error{ErrorCode::kNotFound, fmt::format("{}: no such file; {} says it holds {} and other "
                                                  "tensors; download it",
                                                  path, index_path, tensor)});
    }
    if (out.problems.size() != before) unreadable.insert(shard);
  }
  for (const auto& [tensor, shard] : *weight_map) {
    if (unreadable.contains(shard)) continue;
    auto found = out.tensors.find(tensor);
    if (found != out.tensors.end() &&
        fs::path(out.files[found->second.file]->file().path()).filename() == shard) {
      continue;
    }
    out.AddProblem(
        Error{ErrorCode::kCorrupt, fmt::format("{}: tensor {} is said to be in {}, which lacks it",
                                               index_path, tensor, shard)});
  }
}

}  // namespace

void TensorIndex::AddProblem(Error error) {
  constexpr size_t kMaxProblems = 40;
  if (problems.size() < kMaxProblems) problems.push_back(std::move(error));
}

bool TensorIndex::HasPrefix(std::string_view prefix) const {
  auto at = tensors.lower_bound(prefix);
  return at != tensors.end() && at->first.starts_with(prefix);
}

Result<std::map<std::string, std::string>> ParseWeightMap(std::string_view text,
                                                          std::string_view name) {
  SS_ASSIGN_OR_RETURN(const nlohmann::json document, ParseStrictJson(text, name));
  Status status;
  const JsonObject root(document, std::string(name), &status);
  const JsonObject weight_map = root.Object("weight_map");
  SS_RETURN_IF_ERROR(std::move(status));
  std::map<std::string, std::string> out;
  for (const auto& [tensor, shard] : weight_map.value().items()) {
    if (!shard.is_string() || !IsPlainFileName(shard.get_ref<const std::string&>())) {
      return Fail(
          ErrorCode::kCorrupt,
          fmt::format("{}: weight_map: {}: must be the name of a file in the same directory", name,
                      tensor.substr(0, 200)));
    }
    out.emplace(tensor, shard.get<std::string>());
  }
  return out;
}

TensorIndex OpenTensorIndex(const std::string& directory, bool direct) {
  TensorIndex out;
  const std::string index = directory + "/model.safetensors.index.json";
  const std::string single = directory + "/model.safetensors";
  if (Exists(index)) {
    AddShards(directory, index, direct, out);
  } else if (Exists(single)) {
    AddFile(single, direct, out);
  } else {
    out.AddProblem(
        Error{ErrorCode::kNotFound,
              fmt::format("{}: neither model.safetensors.index.json nor model.safetensors is there",
                          directory)});
  }
  const std::string draft = directory + "/mtp.safetensors";
  if (Exists(draft)) {
    const size_t before = out.files.size();
    AddFile(draft, direct, out);
    if (out.files.size() != before) out.draft_file = static_cast<uint32_t>(before);
  }
  return out;
}

}  // namespace slotstream::checkpoint
