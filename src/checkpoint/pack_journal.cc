#include "checkpoint/pack_journal.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

#include "checkpoint/manifest.h"
#include "checkpoint/sha256.h"
#include "checkpoint/strict_json.h"
#include "io/file.h"
#include "io/system_error.h"

namespace slotstream::checkpoint {

using nlohmann::json;

std::string PackJournal::ToJson() const {
  json list = json::array();
  for (const SourceState& source : sources) {
    list.push_back({{"name", source.name},
                    {"bytes", source.bytes},
                    {"modified_nanos", source.modified_nanos},
                    {"head_sha256", source.head_sha256},
                    {"sha256", source.sha256}});
  }
  return json{{"version", kPackedVersion}, {"sources", list}, {"lengths", lengths}}.dump(1) + "\n";
}

Result<PackJournal> ParseJournal(std::string_view text, std::string_view name) {
  SS_ASSIGN_OR_RETURN(const json document, ParseStrictJson(text, name));
  Status status;
  const JsonObject root(document, std::string(name), &status);
  if (root.U32("version", 0, UINT32_MAX) != kPackedVersion && root.ok()) {
    root.Error(ErrorCode::kUnsupported, "version", "of another layout");
  }
  PackJournal out;
  for (const json& entry : root.Array("sources")) {
    const JsonObject source(entry, fmt::format("{}: sources", name), &status);
    SourceState state{.name = source.String("name"),
                      .bytes = source.Uint("bytes", 0, UINT64_MAX),
                      .modified_nanos = static_cast<int64_t>(
                          source.Uint("modified_nanos", 0, uint64_t{INT64_MAX})),
                      .head_sha256 = source.String("head_sha256"),
                      .sha256 = source.String("sha256")};
    out.sources.push_back(std::move(state));
  }
  const JsonObject lengths = root.Object("lengths");
  for (const auto& [file, length] : lengths.value().items()) {
    out.lengths[file] = lengths.Uint(file.c_str(), 0, uint64_t{INT64_MAX});
  }
  SS_RETURN_IF_ERROR(std::move(status));
  return out;
}

Result<SourceState> ReadSourceState(const std::string& directory, const std::string& name,
                                    uint64_t head_bytes) {
  SS_ASSIGN_OR_RETURN(const std::unique_ptr<io::File> file,
                      io::File::Open(directory + "/" + name, /*direct=*/false));
  struct stat info;
  if (fstat(file->fd(), &info) != 0) {
    return std::unexpected(io::SystemError(errno, "examine", file->path()));
  }
  std::vector<std::byte> head(std::min(head_bytes, file->size()));
  SS_RETURN_IF_ERROR(file->ReadAt(0, head));
  SourceState out;
  out.name = name;
  out.bytes = file->size();
  out.modified_nanos =
      std::max<int64_t>(0, info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec);
  SS_ASSIGN_OR_RETURN(out.head_sha256, Sha256Hex(head));
  return out;
}

}  // namespace slotstream::checkpoint
