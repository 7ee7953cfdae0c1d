#include "checkpoint/manifest.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/crc32c.h"
#include "checkpoint/expected_tensors.h"
#include "checkpoint/ngram_hash.h"
#include "checkpoint/strict_json.h"

namespace slotstream::checkpoint {
namespace {

using nlohmann::json;

constexpr std::string_view kFormatName = "slotstream-packed";
constexpr const char* kPartKeys[] = {"trunk", "draft", "vision"};
constexpr const char* kCrcKey = "manifest_crc32c";

// Over the manifest without the checksum itself, in the library's compact form with sorted keys.
uint32_t ManifestChecksum(json document) {
  document.erase(kCrcKey);
  const std::string text = document.dump();
  return Crc32c(std::as_bytes(std::span(text)));
}

json PartJson(std::string_view file, const ResidentLayout& layout) {
  json tensors = json::array();
  for (const ResidentTensor& tensor : layout.tensors) {
    tensors.push_back({{"name", tensor.name},
                       {"storage", StorageName(tensor.storage)},
                       {"n", tensor.n},
                       {"k", tensor.k},
                       {"group", tensor.group},
                       {"offset", tensor.offset},
                       {"bytes", tensor.bytes}});
  }
  return {{"file", file}, {"bytes", layout.bytes}, {"tensors", std::move(tensors)}};
}

json LayoutJson(const PackedLayout& layout) {
  const bool folded = layout.fold > 1;
  json out = {{"format", kFormatName}, {"version", folded ? kFoldedVersion : kPackedVersion}};
  if (folded) out["fold"] = layout.fold;
  for (size_t i = 0; i < std::size(kParts); ++i) {
    const ResidentLayout* part = layout.part(kParts[i]);
    if (part != nullptr) out["parts"][kPartKeys[i]] = PartJson(PartFile(kParts[i]), *part);
  }
  out["experts"] = {{"file", kExpertsFile},
                    {"bytes", layout.experts_bytes()},
                    {"layers", layout.expert_layers},
                    {"experts", layout.experts},
                    {"record_bytes", layout.expert.record_bytes()},
                    {"expert_size", layout.expert.gate.n},
                    {"hidden_size", layout.expert.gate.k},
                    {"gate_group", layout.expert.gate.group},
                    {"up_group", layout.expert.up.group},
                    {"down_group", layout.expert.down.group}};
  json tables = json::array();
  for (const NgramTableLayout& table : layout.ngrams) {
    tables.push_back({{"layer", table.layer},
                      {"rows", table.rows},
                      {"width", table.width},
                      {"group", table.group},
                      {"rows_per_page", table.rows_per_page()},
                      {"first_page", table.first_page},
                      {"pages", table.pages()}});
  }
  out["ngrams"] = {{"file", kNgramFile}, {"bytes", layout.ngram_bytes()}, {"tables", tables}};
  out["checksums"] = {
      {"file", kChecksumsFile}, {"bytes", layout.checksums_bytes()}, {"chunk_bytes", kChunkBytes}};
  return out;
}

json IdentitiesJson(const std::vector<FileIdentity>& files) {
  json out = json::array();
  for (const FileIdentity& file : files) {
    out.push_back({{"name", file.name}, {"bytes", file.bytes}, {"sha256", file.sha256}});
  }
  return out;
}

std::vector<FileIdentity> ParseIdentities(const JsonObject& root, const char* key) {
  std::vector<FileIdentity> out;
  size_t i = 0;
  for (const json& entry : root.Array(key)) {
    Status status;
    const JsonObject file(entry, fmt::format("{}: {}[{}]", root.path(), key, i++), &status);
    FileIdentity identity{file.String("name"), file.Uint("bytes", 0, UINT64_MAX),
                          file.String("sha256")};
    if (!status) {
      root.Error(ErrorCode::kCorrupt, key, status.error().message);
      break;
    }
    if (identity.name.empty() || identity.name.find('/') != std::string::npos ||
        identity.name == "..") {
      root.Error(ErrorCode::kCorrupt, key, "names must be plain file names");
      break;
    }
    out.push_back(std::move(identity));
  }
  return out;
}

// A document that is a manifest of a known version and undamaged.
Result<json> ParseDocument(std::string_view text, std::string_view name) {
  SS_ASSIGN_OR_RETURN(json document, ParseStrictJson(text, name));
  Status status;
  const JsonObject root(document, std::string(name), &status);
  const std::string format = root.String("format");
  if (root.ok() && format != kFormatName) {
    root.Error(ErrorCode::kUnsupported, "format", "this is no packed checkpoint of slotstream");
  }
  const uint32_t version = root.U32("version", 0, UINT32_MAX);
  if (root.ok() && version != kPackedVersion && version != kFoldedVersion) {
    root.Error(ErrorCode::kUnsupported, "version",
               fmt::format("the packed form has version {}, this program knows {} and {}; pack the "
                           "original again or use another version of the program",
                           version, kPackedVersion, kFoldedVersion));
  }
  const uint32_t crc = root.U32(kCrcKey, 0, UINT32_MAX);
  if (root.ok() && crc != ManifestChecksum(document)) {
    root.Error(ErrorCode::kCorrupt, kCrcKey, "the manifest was damaged or edited; pack again");
  }
  SS_RETURN_IF_ERROR(std::move(status));
  return document;
}

// Group sizes are all that the config does not decide.
ResidentLayout ParsePart(const JsonObject& part, const ModelConfig& config, Part which) {
  const std::vector<ExpectedTensor> expected = ExpectedTensors(config, which);
  const json& tensors = part.Array("tensors");
  if (tensors.size() != expected.size()) {
    part.Error(
        ErrorCode::kCorrupt, "tensors",
        fmt::format("{} are listed, the config asks for {}", tensors.size(), expected.size()));
    return {};
  }
  std::vector<uint32_t> groups;
  for (size_t i = 0; i < expected.size(); ++i) {
    const json* group =
        tensors[i].is_object() && tensors[i].contains("group") ? &tensors[i].at("group") : nullptr;
    uint32_t value = 0;
    if (group != nullptr && group->is_number_unsigned() &&
        group->get<uint64_t>() <= expected[i].k) {
      value = group->get<uint32_t>();
    }
    if (expected[i].quantized() && (value == 0 || value % 8 != 0 || expected[i].k % value != 0)) {
      part.Error(ErrorCode::kCorrupt, "tensors",
                 fmt::format("{} has no valid group", expected[i].name));
      return {};
    }
    groups.push_back(value);
  }
  return LayOut(expected, groups);
}

uint32_t ParseGroup(const JsonObject& object, const char* key, uint32_t k) {
  const uint32_t group = object.U32(key, 8, k);
  if (object.ok() && (group % 8 != 0 || k % group != 0)) {
    object.Error(ErrorCode::kCorrupt, key, fmt::format("does not divide {}", k));
  }
  return group;
}

Status ParseNgrams(const JsonObject& root, const ModelConfig& config, PackedLayout& layout) {
  const json& tables = root.Object("ngrams").Array("tables");
  if (tables.size() != config.ple_layers.size()) {
    root.Error(ErrorCode::kCorrupt, "ngrams", "lists another number of tables than the config");
    return {};
  }
  for (size_t i = 0; i < tables.size(); ++i) {
    Status status;
    const JsonObject object(tables[i], root.path() + ": ngrams: tables", &status);
    NgramTableLayout table{.layer = config.ple_layers[i],
                           .rows = MakeNgramHash(config, i).rows,
                           .width = config.ngram_row_width(),
                           .group = ParseGroup(object, "group", config.ngram_row_width())};
    SS_RETURN_IF_ERROR(std::move(status));
    layout.ngrams.push_back(table);
  }
  return PlaceNgramTables(layout.ngrams);
}

Result<PackedLayout> ParseLayout(const JsonObject& root, const ModelConfig& config) {
  PackedLayout layout;
  const JsonObject parts = root.Object("parts");
  layout.trunk = ParsePart(parts.Object("trunk"), config, Part::kTrunk);
  if (parts.Has("draft")) layout.draft = ParsePart(parts.Object("draft"), config, Part::kDraft);
  if (parts.Has("vision")) layout.vision = ParsePart(parts.Object("vision"), config, Part::kVision);
  const JsonObject experts = root.Object("experts");
  layout.expert.gate = {config.expert_size, config.hidden_size,
                        ParseGroup(experts, "gate_group", config.hidden_size)};
  layout.expert.up = {config.expert_size, config.hidden_size,
                      ParseGroup(experts, "up_group", config.hidden_size)};
  layout.expert.down = {config.hidden_size, config.expert_size,
                        ParseGroup(experts, "down_group", config.expert_size)};
  layout.expert_layers = config.num_layers() + (layout.draft ? config.mtp_layers : 0);
  layout.experts = config.num_experts;
  SS_RETURN_IF_ERROR(ParseNgrams(root, config, layout));
  if (root.ok() && root.U32("version", 0, UINT32_MAX) == kFoldedVersion) {
    layout.fold = root.U32("fold", 2, UINT32_MAX);
    if (Status status = CheckFold(layout); !status) root.Corrupt("fold", status.error().message);
  }
  return layout;
}

}  // namespace

std::string FormatManifest(const Manifest& manifest) {
  json out = LayoutJson(manifest.layout);
  out["checksums"]["sha256"] = manifest.checksums_sha256;
  out["side_files"] = IdentitiesJson(manifest.side_files);
  out["sources"] = IdentitiesJson(manifest.sources);
  out[kCrcKey] = ManifestChecksum(out);
  return out.dump(1) + "\n";
}

Result<std::vector<FileIdentity>> ParseSideFiles(std::string_view text, std::string_view name) {
  SS_ASSIGN_OR_RETURN(const json document, ParseDocument(text, name));
  Status status;
  const JsonObject root(document, std::string(name), &status);
  std::vector<FileIdentity> out = ParseIdentities(root, "side_files");
  SS_RETURN_IF_ERROR(std::move(status));
  return out;
}

Result<Manifest> ParseManifest(std::string_view text, std::string_view name,
                               const ModelConfig& config) {
  SS_ASSIGN_OR_RETURN(const json document, ParseDocument(text, name));
  Status status;
  const JsonObject root(document, std::string(name), &status);
  Manifest out;
  out.checksums_sha256 = root.Object("checksums").String("sha256");
  out.side_files = ParseIdentities(root, "side_files");
  out.sources = ParseIdentities(root, "sources");
  Result<PackedLayout> layout = ParseLayout(root, config);
  SS_RETURN_IF_ERROR(std::move(status));
  if (!layout) return std::unexpected(std::move(layout).error());
  out.layout = std::move(*layout);

  // Whatever this program would write about the layout must stand there, number for number.
  json computed = LayoutJson(out.layout);
  computed["checksums"]["sha256"] = out.checksums_sha256;
  for (const auto& [key, value] : computed.items()) {
    if (!document.contains(key) || document.at(key) != value) {
      return Fail(
          ErrorCode::kCorrupt,
          fmt::format("{}: {}: contradicts config.json or this program's layout; pack again", name,
                      key));
    }
  }
  return out;
}

}  // namespace slotstream::checkpoint
