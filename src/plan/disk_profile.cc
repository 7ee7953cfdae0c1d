#include "plan/disk_profile.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "io/atomic_file.h"
#include "io/file.h"

namespace slotstream::plan {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 3;
constexpr size_t kMaxProfileBytes = 1 << 16;

// Two models on one disk, or two forms of one, have profiles of their own.
std::string PathOf(const std::string& directory, const ProfileKey& key) {
  return fmt::format("{}/disk-{:x}-{}-{}.json", directory, key.disk.device, key.disk.file_bytes,
                     key.record_bytes);
}

Json ToJson(const Range& range) { return {range.low, range.typical, range.high}; }

bool ReadRange(const Json& json, const char* name, Range& range) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_array() || found->size() != 3) return false;
  for (const Json& value : *found) {
    if (!value.is_number()) return false;
  }
  range = {(*found)[0], (*found)[1], (*found)[2]};
  return range.low > 0 && range.low <= range.typical && range.typical <= range.high;
}

template <typename T>
bool Same(const Json& json, const char* name, const T& expected) {
  const auto found = json.find(name);
  return found != json.end() && *found == Json(expected);
}

std::unexpected<Error> OutOfDate(std::string_view why) {
  return Fail(ErrorCode::kNotFound, fmt::format("the disk's profile is out of date: {}", why));
}

}  // namespace

Result<StoredRates> LoadProfile(const std::string& directory, const ProfileKey& key, int64_t now) {
  const std::string path = PathOf(directory, key);
  auto text = io::ReadWholeFile(path, kMaxProfileBytes);
  if (!text && text.error().code == ErrorCode::kNotFound) {
    return Fail(ErrorCode::kNotFound, "this disk was not measured yet");
  }
  if (!text) return std::unexpected(std::move(text).error());
  const Json json = Json::parse(*text, nullptr, false);
  StoredRates stored;
  const auto corrupt = [&] {
    return Fail(ErrorCode::kCorrupt, fmt::format("{} is no profile of a disk", path));
  };
  if (!json.is_object() || !Same(json, "version", kVersion)) return corrupt();
  const auto rows = json.find("rows_per_second"), cores = json.find("core_seconds"),
             at = json.find("measured_at");
  if (rows == json.end() || !rows->is_number() || cores == json.end() || !cores->is_number() ||
      at == json.end() || !at->is_number_integer() ||
      !ReadRange(json, "single", stored.rates.single) ||
      !ReadRange(json, "full", stored.rates.full) ||
      !ReadRange(json, "ordered", stored.rates.ordered)) {
    return corrupt();
  }
  if (!Same(json, "file_modified", key.disk.file_modified)) return OutOfDate("the file changed");
  if (!Same(json, "disk", key.disk.name)) return OutOfDate("it is another disk");
  if (!Same(json, "io", key.io)) return OutOfDate("it is read in another way");
  stored.rates.rows_per_second = *rows;
  stored.rates.core_seconds = *cores;
  stored.measured_at = *at;
  // A clock that was set back makes every age a guess.
  if (now < stored.measured_at || now - stored.measured_at > kProfileSeconds) {
    return OutOfDate(fmt::format("measured {} days ago", (now - stored.measured_at) / 86'400));
  }
  return stored;
}

Status SaveProfile(const std::string& directory, const ProfileKey& key, const StoredRates& stored) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) {
    return Fail(ErrorCode::kIo, fmt::format("cannot create {}: {}", directory, error.message()));
  }
  const Json json = {{"version", kVersion},
                     {"disk", key.disk.name},
                     {"file_modified", key.disk.file_modified},
                     {"io", key.io},
                     {"measured_at", stored.measured_at},
                     {"single", ToJson(stored.rates.single)},
                     {"full", ToJson(stored.rates.full)},
                     {"ordered", ToJson(stored.rates.ordered)},
                     {"rows_per_second", stored.rates.rows_per_second},
                     {"core_seconds", stored.rates.core_seconds}};
  const std::string text = json.dump(2) + "\n";
  return io::WriteFileAtomically(PathOf(directory, key),
                                 std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace slotstream::plan
