#include "checkpoint/strict_json.h"

#include <fmt/format.h>

#include <unordered_set>
#include <vector>

namespace slotstream::checkpoint {

using nlohmann::json;

namespace {

const json& EmptyArray() {
  static const json empty = json::array();
  return empty;
}
const json& EmptyObject() {
  static const json empty = json::object();
  return empty;
}

// Walks a document without building it: syntax, bounds, duplicate keys.
class BoundsChecker final : public nlohmann::json_sax<json> {
 public:
  const std::string& error() const { return error_; }

  bool null() override { return Value(); }
  bool boolean(bool) override { return Value(); }
  bool number_integer(number_integer_t) override { return Value(); }
  bool number_unsigned(number_unsigned_t) override { return Value(); }
  bool number_float(number_float_t, const string_t&) override { return Value(); }
  bool string(string_t&) override { return Value(); }
  bool binary(binary_t&) override { return Value(); }
  bool start_object(size_t) override { return Open(); }
  bool end_object() override { return Close(); }
  bool start_array(size_t) override { return Open(); }
  bool end_array() override { return Close(); }
  bool key(string_t& name) override {
    if (keys_.back().insert(name).second) return true;
    return Stop(fmt::format("the key \"{}\" appears twice", name.substr(0, 200)));
  }
  bool parse_error(size_t position, const std::string&, const json::exception& e) override {
    // An input may put control characters and whole documents into the parser's message.
    std::string what = e.what();
    std::erase_if(what, [](unsigned char c) { return c < 0x20 || c >= 0x7f; });
    return Stop(fmt::format("not valid JSON at byte {}: {}", position, what.substr(0, 200)));
  }

 private:
  bool Stop(std::string message) {
    if (error_.empty()) error_ = std::move(message);
    return false;
  }
  bool Value() {
    return ++values_ <= kMaxJsonValues ||
           Stop(fmt::format("more than {} JSON values", kMaxJsonValues));
  }
  bool Open() {
    if (keys_.size() >= size_t{kMaxJsonDepth}) {
      return Stop(fmt::format("JSON nested deeper than {} levels", kMaxJsonDepth));
    }
    keys_.emplace_back();
    return Value();
  }
  bool Close() {
    keys_.pop_back();
    return true;
  }

  uint64_t values_ = 0;
  std::vector<std::unordered_set<std::string>> keys_;  // of the open objects; empty for arrays
  std::string error_;
};

}  // namespace

Result<json> ParseStrictJson(std::string_view text, std::string_view name) {
  BoundsChecker checker;
  if (!json::sax_parse(text.begin(), text.end(), &checker)) {
    return Fail(ErrorCode::kCorrupt, fmt::format("{}: {}", name, checker.error()));
  }
  json document = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded()) {
    return Fail(ErrorCode::kCorrupt, fmt::format("{}: not valid JSON", name));
  }
  return document;
}

JsonObject::JsonObject(const json& object, std::string path, Status* status)
    : object_(&object), path_(std::move(path)), status_(status) {
  if (object.is_object()) return;
  if (*status_) *status_ = Fail(ErrorCode::kCorrupt, path_ + ": must be a JSON object");
  object_ = &EmptyObject();
}

void JsonObject::Error(ErrorCode code, std::string_view key, std::string_view what) const {
  if (*status_) *status_ = Fail(code, fmt::format("{}: {}: {}", path_, key, what));
}

const json* JsonObject::Find(const char* key) const {
  auto found = object_->find(key);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

bool JsonObject::Has(const char* key) const { return Find(key) != nullptr; }

uint64_t JsonObject::Uint(const char* key, uint64_t low, uint64_t high) const {
  const json* value = Find(key);
  if (value == nullptr) {
    Error(ErrorCode::kCorrupt, key, "missing");
    return low;
  }
  if (!value->is_number_unsigned()) {
    Error(ErrorCode::kCorrupt, key, "must be a non-negative integer");
    return low;
  }
  uint64_t number = value->get<uint64_t>();
  if (number < low || number > high) {
    Error(ErrorCode::kCorrupt, key, fmt::format("{} is outside {} to {}", number, low, high));
    return low;
  }
  return number;
}

uint32_t JsonObject::U32(const char* key, uint32_t low, uint32_t high) const {
  return static_cast<uint32_t>(Uint(key, low, high));
}

double JsonObject::Number(const char* key, double low, double high) const {
  const json* value = Find(key);
  if (value == nullptr || !value->is_number()) {
    Error(ErrorCode::kCorrupt, key, value == nullptr ? "missing" : "must be a number");
    return low;
  }
  double number = value->get<double>();
  if (!(number >= low && number <= high)) {
    Error(ErrorCode::kCorrupt, key, fmt::format("{} is outside {} to {}", number, low, high));
    return low;
  }
  return number;
}

bool JsonObject::Bool(const char* key) const {
  const json* value = Find(key);
  if (value != nullptr && value->is_boolean()) return value->get<bool>();
  Error(ErrorCode::kCorrupt, key, value == nullptr ? "missing" : "must be true or false");
  return false;
}

std::string JsonObject::String(const char* key) const {
  const json* value = Find(key);
  if (value != nullptr && value->is_string()) return value->get<std::string>();
  Error(ErrorCode::kCorrupt, key, value == nullptr ? "missing" : "must be a string");
  return {};
}

const json& JsonObject::Array(const char* key) const {
  const json* value = Find(key);
  if (value != nullptr && value->is_array()) return *value;
  Error(ErrorCode::kCorrupt, key, value == nullptr ? "missing" : "must be an array");
  return EmptyArray();
}

JsonObject JsonObject::Object(const char* key) const {
  const json* value = Find(key);
  if (value == nullptr) {
    Error(ErrorCode::kCorrupt, key, "missing");
    value = &EmptyObject();
  }
  return JsonObject(*value, fmt::format("{}: {}", path_, key), status_);
}

uint64_t JsonObject::UintOr(const char* key, uint64_t low, uint64_t high, uint64_t absent) const {
  return Has(key) ? Uint(key, low, high) : absent;
}
uint32_t JsonObject::U32Or(const char* key, uint32_t low, uint32_t high, uint32_t absent) const {
  return Has(key) ? U32(key, low, high) : absent;
}
double JsonObject::NumberOr(const char* key, double low, double high, double absent) const {
  return Has(key) ? Number(key, low, high) : absent;
}
bool JsonObject::BoolOr(const char* key, bool absent) const {
  return Has(key) ? Bool(key) : absent;
}
std::string JsonObject::StringOr(const char* key, std::string_view absent) const {
  return Has(key) ? String(key) : std::string(absent);
}

}  // namespace slotstream::checkpoint
