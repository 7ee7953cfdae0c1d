// What the tests of constraints share: replies drawn from uniform logits, and a validator of JSON
// Schema that knows nothing of grammars.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "generate/constraint.h"
#include "generate/reply_shape.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace slotstream::generate {

inline const text::Tokenizer& Miniature() {
  static const Result<text::Tokenizer> tokenizer =
      text::Tokenizer::Load(SLOTSTREAM_SOURCE_DIR "/models/miniature/tokenizer.json");
  EXPECT_TRUE(tokenizer);
  return *tokenizer;
}

inline VocabularyIndex& MiniatureIndex() {
  static VocabularyIndex index(Miniature());
  return index;
}

inline uint32_t StopId() { return *Miniature().FindAddedToken("<|im_end|>"); }

inline std::vector<uint32_t> Encode(std::string_view text) {
  return Miniature().Encode(text).value();
}

inline ReplyShape SchemaShape(const text::OrderedJson& schema) {
  ReplyShape shape;
  shape.document = ReplyShape::Document::kSchema;
  shape.schema = schema;
  shape.schema_place = "format";
  return shape;
}

inline std::vector<uint32_t> Allowed(ConstraintRun& run) {
  std::vector<float> logits(Miniature().vocab_size(), 0.0f);
  run.Filter(logits);
  std::vector<uint32_t> ids;
  for (uint32_t id = 0; id < logits.size(); ++id) {
    if (logits[id] == 0) ids.push_back(id);
  }
  return ids;
}

// `bytes` go on with the end of a parameter's frame, as far as `text` ends with it.
inline bool EndsParameter(std::string_view text, std::string_view bytes) {
  constexpr std::string_view end = "\n</parameter>";
  for (size_t n = end.size() - 1; n > 0; --n) {
    if (text.ends_with(end.substr(0, n))) return end.substr(n).starts_with(bytes);
  }
  return end.starts_with(bytes);
}

// Tokens chosen evenly among those allowed. From `soft` tokens on those are preferred that close
// things, so that every reply ends. Empty: none was allowed, or the reply had no end.
struct RandomReply {
  std::string text;
  size_t tokens = 0;
  bool ended = false;
};
inline RandomReply DrawReply(ConstraintRun& run, std::mt19937& rng, size_t soft) {
  RandomReply reply;
  const size_t most = 20 * soft + 2000;
  while (reply.tokens < most) {
    if (run.Finished()) {
      reply.ended = true;
      return reply;
    }
    std::vector<uint32_t> ids = Allowed(run);
    if (ids.empty()) return reply;
    if (reply.tokens > soft) {
      std::vector<uint32_t> closing, ending;
      for (uint32_t id : ids) {
        const std::string_view bytes = *Miniature().TokenBytes(id);
        if (bytes.find_first_not_of("\"]}0\n") == std::string_view::npos) closing.push_back(id);
        if (EndsParameter(reply.text, bytes)) ending.push_back(id);
      }
      if (std::find(ids.begin(), ids.end(), StopId()) != ids.end()) {
        ids = {StopId()};
      } else if (!ending.empty()) {
        ids = ending;
      } else if (!closing.empty()) {
        ids = closing;
      }
    }
    const uint32_t id = ids[rng() % ids.size()];
    if (id == StopId()) {
      reply.ended = run.Accept(id);
      return reply;
    }
    EXPECT_TRUE(run.Accept(id)) << "allowed, but not accepted: " << *Miniature().TokenBytes(id)
                                << " after " << reply.text;
    reply.text += *Miniature().TokenBytes(id);
    ++reply.tokens;
  }
  return reply;
}

// An independent reading of the keywords that the tests use.
class Validator {
 public:
  using Json = text::OrderedJson;
  explicit Validator(const Json& root) : root_(root) {}
  bool Valid(const Json& value) const { return Valid(root_, value); }
  bool Valid(const Json& schema, const Json& value) const {
    if (schema.is_boolean()) return schema.get<bool>();
    for (const auto& [key, part] : schema.items()) {
      if (!Keyword(key, part, schema, value)) return false;
    }
    return true;
  }

 private:
  static bool IsType(const std::string& type, const Json& v) {
    if (type == "integer") {
      return v.is_number() &&
             (!v.is_number_float() || v.get<double>() == std::floor(v.get<double>()));
    }
    return type == (v.is_number() ? "number" : v.is_null() ? "null" : v.type_name());
  }
  static size_t Length(const std::string& text) {
    size_t length = 0;
    for (char c : text) length += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    return length;
  }
  bool Keyword(const std::string& key, const Json& part, const Json& schema, const Json& v) const {
    const auto some = [&](const auto& test) { return std::any_of(part.begin(), part.end(), test); };
    const double number = v.is_number() ? v.get<double>() : 0;
    if (key == "type") {
      return part.is_string() ? IsType(part, v) : some([&](const Json& t) { return IsType(t, v); });
    }
    if (key == "enum") return some([&](const Json& one) { return one == v; });
    if (key == "const") return part == v;
    if (key == "anyOf" || key == "oneOf") {
      return some([&](const Json& way) { return Valid(way, v); });
    }
    if (key == "allOf") {
      return std::all_of(part.begin(), part.end(), [&](const Json& way) { return Valid(way, v); });
    }
    if (key == "$ref") {
      return Valid(root_.at(Json::json_pointer(part.get<std::string>().substr(1))), v);
    }
    if (v.is_number()) {
      if (key == "minimum") return number >= part.get<double>();
      if (key == "maximum") return number <= part.get<double>();
      if (key == "exclusiveMinimum") return number > part.get<double>();
      if (key == "exclusiveMaximum") return number < part.get<double>();
    }
    if (v.is_string()) {
      if (key == "minLength") return Length(v) >= part.get<size_t>();
      if (key == "maxLength") return Length(v) <= part.get<size_t>();
    }
    if (v.is_array()) {
      const size_t prefix = schema.contains("prefixItems") ? schema["prefixItems"].size() : 0;
      if (key == "minItems") return v.size() >= part.get<size_t>();
      if (key == "maxItems") return v.size() <= part.get<size_t>();
      for (size_t i = 0; i < v.size(); ++i) {
        if (key == "items" && i >= prefix && !Valid(part, v[i])) return false;
        if (key == "prefixItems" && i < prefix && !Valid(part[i], v[i])) return false;
      }
    }
    if (!v.is_object()) return true;
    if (key == "minProperties") return v.size() >= part.get<size_t>();
    if (key == "maxProperties") return v.size() <= part.get<size_t>();
    if (key == "required") {
      return std::all_of(part.begin(), part.end(),
                         [&](const Json& name) { return v.contains(name.get<std::string>()); });
    }
    for (const auto& [name, member] : v.items()) {
      if (key == "properties" && part.contains(name) && !Valid(part[name], member)) return false;
      const bool declared = schema.contains("properties") && schema["properties"].contains(name);
      if (key == "additionalProperties" && !declared && !Valid(part, member)) return false;
    }
    return true;
  }

  const Json& root_;
};

}  // namespace slotstream::generate
