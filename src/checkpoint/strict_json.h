// JSON from files that may be hostile: parsed without exceptions and within bounds.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace slotstream::checkpoint {

// The deepest document this program reads (a manifest) has six levels.
inline constexpr int kMaxJsonDepth = 32;
// Values in one document. The FP8 release of the model has 152,089 tensors of seven values each;
// a million more than that bounds the parsed document to a few hundred MB.
inline constexpr uint64_t kMaxJsonValues = 2'000'000;

// Parses `text`; `name` (a path) appears in errors. kCorrupt: not JSON, a key twice in one object,
// nested deeper or larger than the bounds above.
Result<nlohmann::json> ParseStrictJson(std::string_view text, std::string_view name);

// Typed reading of one JSON object, for files with many keys. The first error sticks and later
// calls do nothing, so that a reader checks `status()` once at the end.
class JsonObject {
 public:
  // `path` names the object in errors: "config.json: text_config".
  JsonObject(const nlohmann::json& object, std::string path, Status* status);

  bool Has(const char* key) const;  // present and not null
  // Required members. On error the result is a harmless value of the type.
  uint64_t Uint(const char* key, uint64_t low, uint64_t high) const;
  uint32_t U32(const char* key, uint32_t low, uint32_t high) const;
  double Number(const char* key, double low, double high) const;
  bool Bool(const char* key) const;
  std::string String(const char* key) const;
  const nlohmann::json& Array(const char* key) const;
  JsonObject Object(const char* key) const;
  // The same with a value for an absent or null member.
  uint64_t UintOr(const char* key, uint64_t low, uint64_t high, uint64_t absent) const;
  uint32_t U32Or(const char* key, uint32_t low, uint32_t high, uint32_t absent) const;
  double NumberOr(const char* key, double low, double high, double absent) const;
  bool BoolOr(const char* key, bool absent) const;
  std::string StringOr(const char* key, std::string_view absent) const;

  const nlohmann::json& value() const { return *object_; }
  const std::string& path() const { return path_; }
  bool ok() const { return status_->has_value(); }
  // Record an error about a member; only the first one is kept.
  void Error(ErrorCode code, std::string_view key, std::string_view what) const;
  void Corrupt(std::string_view key, std::string_view what) const {
    Error(ErrorCode::kCorrupt, key, what);
  }
  void Unsupported(std::string_view key, std::string_view what) const {
    Error(ErrorCode::kUnsupported, key, what);
  }

 private:
  const nlohmann::json* Find(const char* key) const;

  const nlohmann::json* object_;
  std::string path_;
  Status* status_;
};

}  // namespace slotstream::checkpoint
