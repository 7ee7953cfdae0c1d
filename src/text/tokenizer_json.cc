#include "text/tokenizer_json.h"

#include <fmt/format.h>

#include <exception>
#include <functional>
#include <new>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace slotstream::text {
namespace {

using Json = nlohmann::json;

// Longest literal of an added token; real ones have some twenty bytes. It bounds the work that
// the search for literals may spend on one byte of text.
constexpr size_t kLongestAddedToken = 256;

// The two big parts of the file, taken out of the parser's hands entry by entry: as a document
// they would need a hundred megabytes.
class BigParts {
 public:
  explicit BigParts(TokenizerSpec& spec) : spec_(spec) {}

  // nlohmann's parser callback: false drops what was just parsed.
  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    using Event = Json::parse_event_t;
    if (event == Event::key) {
      if (depth == 1) root_key_ = parsed.get_ref<const std::string&>(), model_key_.clear();
      if (depth == 2) model_key_ = parsed.get_ref<const std::string&>();
      if (depth != 3 || !In("vocab")) return true;
      if (vocab_key_open_) bad_vocab_ = true;
      spec_.vocab.push_back({parsed.get<std::string>(), 0});
      vocab_key_open_ = true;
      return false;
    }
    if (depth == 3 && In("vocab") && event == Event::value) {
      TakeId(parsed);
      return false;
    }
    if (depth == 3 && In("merges") && event == Event::value) {
      TakeMergeText(parsed);
      return false;
    }
    if (depth == 3 && In("merges") && event == Event::array_end) {
      TakeMergePair(parsed);
      return false;
    }
    return true;
  }

  std::string Problem() const {
    if (bad_vocab_ || vocab_key_open_) {
      return fmt::format("model.vocab: a value is not an id from 0 to {}", kTokenIdEnd - 1);
    }
    if (bad_merge_) {
      return fmt::format("model.merges[{}] is not a pair of tokens", spec_.merges.size());
    }
    return {};
  }

 private:
  bool In(std::string_view part) const { return root_key_ == "model" && model_key_ == part; }

  void TakeId(const Json& value) {
    if (!vocab_key_open_ || !value.is_number_unsigned() || value.get<uint64_t>() >= kTokenIdEnd) {
      bad_vocab_ = true;
    } else {
      spec_.vocab.back().id = value.get<TokenId>();
    }
    vocab_key_open_ = false;
  }

  void TakeMergeText(const Json& value) {  // the older form, "left right"
    if (bad_merge_) return;
    const std::string line = value.is_string() ? value.get<std::string>() : "";
    const size_t space = line.find(' ');
    if (space == std::string::npos || space != line.rfind(' ')) {
      bad_merge_ = true;
      return;
    }
    AddMerge(line.substr(0, space), line.substr(space + 1));
  }

  void TakeMergePair(const Json& pair) {
    if (bad_merge_) return;
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) {
      bad_merge_ = true;
      return;
    }
    AddMerge(pair[0].get<std::string>(), pair[1].get<std::string>());
  }

  void AddMerge(std::string left, std::string right) {
    if (left.empty() || right.empty()) {
      bad_merge_ = true;
    } else {
      spec_.merges.push_back({std::move(left), std::move(right)});
    }
  }

  TokenizerSpec& spec_;
  std::string root_key_, model_key_;
  bool vocab_key_open_ = false;
  bool bad_vocab_ = false, bad_merge_ = false;
};

// What is left of the file, checked field by field.
class SpecReader {
 public:
  SpecReader(const Json& root, std::string_view name, TokenizerSpec& spec)
      : root_(root), name_(name), spec_(spec) {}

  Status Read() {
    if (!root_.is_object()) return Corrupt("the document is not an object");
    SS_RETURN_IF_ERROR(ReadModel());
    SS_RETURN_IF_ERROR(ReadNormalizer());
    SS_RETURN_IF_ERROR(ReadPretokenizer());
    SS_RETURN_IF_ERROR(ReadPassThrough());
    SS_RETURN_IF_ERROR(CheckVocab());
    return ReadAddedTokens();
  }

 private:
  template <typename... Args>
  std::unexpected<Error> Corrupt(fmt::format_string<Args...> format, Args&&... args) const {
    return Fail(ErrorCode::kCorrupt,
                fmt::format("{}: {}", name_, fmt::format(format, std::forward<Args>(args)...)));
  }
  template <typename... Args>
  std::unexpected<Error> Unsupported(fmt::format_string<Args...> format, Args&&... args) const {
    return Fail(ErrorCode::kUnsupported,
                fmt::format("{}: {}", name_, fmt::format(format, std::forward<Args>(args)...)));
  }

  // A member, or null where it is absent or the parent is no object.
  static const Json& Member(const Json& parent, const char* key) {
    static const Json kNull;
    if (!parent.is_object()) return kNull;
    auto found = parent.find(key);
    return found == parent.end() ? kNull : *found;
  }

  static bool IsType(const Json& object, std::string_view type) {
    const Json& value = Member(object, "type");
    return value.is_string() && value.get_ref<const std::string&>() == type;
  }

  static bool IsTrue(const Json& value) { return value.is_boolean() && value.get<bool>(); }

  Status ReadModel() {
    const Json& model = Member(root_, "model");
    if (!model.is_object()) return Corrupt("there is no object model");
    if (!IsType(model, "BPE")) return Unsupported("model.type is not BPE");
    // Their entries are in spec_ already; what is left in the document is no entry.
    const Json& vocab = Member(model, "vocab");
    const Json& merges = Member(model, "merges");
    if (!vocab.is_object()) return Corrupt("model.vocab is not an object");
    if (!merges.is_array()) return Corrupt("model.merges is not a list");
    if (!vocab.empty() || !merges.empty()) {
      return Corrupt("model.vocab or model.merges has an entry of a wrong type");
    }
    for (const char* flag : {"byte_fallback", "ignore_merges", "fuse_unk"}) {
      const Json& value = Member(model, flag);
      if (!value.is_null() && !value.is_boolean()) return Corrupt("model.{} is no boolean", flag);
      if (IsTrue(value)) return Unsupported("model.{} is true", flag);
    }
    for (const char* affix : {"unk_token", "continuing_subword_prefix", "end_of_word_suffix"}) {
      const Json& value = Member(model, affix);
      if (value.is_null() || (value.is_string() && value.get_ref<const std::string&>().empty())) {
        continue;
      }
      return Unsupported("model.{} is set", affix);
    }
    const Json& dropout = Member(model, "dropout");
    if (!dropout.is_null() && !(dropout.is_number() && dropout.get<double>() == 0)) {
      return Unsupported("model.dropout is set");
    }
    return {};
  }

  Status ReadNormalizer() {
    const Json& normalizer = Member(root_, "normalizer");
    if (normalizer.is_null()) return {};
    if (!IsType(normalizer, "NFC")) return Unsupported("the normalizer is not NFC");
    spec_.nfc = true;
    return {};
  }

  Status ReadPretokenizer() {
    const Json& sequence = Member(root_, "pre_tokenizer");
    const Json& steps = Member(sequence, "pretokenizers");
    if (!IsType(sequence, "Sequence") || !steps.is_array() || steps.size() != 2 ||
        !IsType(steps[0], "Split") || !IsType(steps[1], "ByteLevel")) {
      return Unsupported("the pre_tokenizer is not a Sequence of Split and ByteLevel");
    }
    const Json& pattern = Member(Member(steps[0], "pattern"), "Regex");
    if (!pattern.is_string()) return Unsupported("the Split has no pattern.Regex");
    const Json& behavior = Member(steps[0], "behavior");
    if (!behavior.is_string() || behavior.get_ref<const std::string&>() != "Isolated") {
      return Unsupported("the behavior of Split is not Isolated");
    }
    if (IsTrue(Member(steps[0], "invert"))) return Unsupported("Split has invert");
    // Their defaults, where the fields are absent, are true.
    for (const char* flag : {"add_prefix_space", "use_regex"}) {
      const Json& value = Member(steps[1], flag);
      if (!value.is_boolean() || value.get<bool>()) {
        return Unsupported("{} of the ByteLevel pre_tokenizer is not false", flag);
      }
    }
    spec_.split_pattern = pattern.get<std::string>();
    return {};
  }

  // The parts that must not change ids or text.
  Status ReadPassThrough() {
    if (!IsType(Member(root_, "decoder"), "ByteLevel")) {
      return Unsupported("the decoder is not ByteLevel");
    }
    const Json& post = Member(root_, "post_processor");
    if (!post.is_null() && !IsType(post, "ByteLevel")) {
      return Unsupported("the post_processor is not ByteLevel");
    }
    for (const char* part : {"truncation", "padding"}) {
      if (!Member(root_, part).is_null()) return Unsupported("{} is set", part);
    }
    return {};
  }

  Status CheckVocab() {
    vocab_.reserve(spec_.vocab.size());
    ids_.reserve(spec_.vocab.size());
    for (const VocabEntry& entry : spec_.vocab) {
      if (entry.token.empty()) return Corrupt("model.vocab: token {} is empty", entry.id);
      if (!vocab_.emplace(entry.token, entry.id).second) {
        return Corrupt("model.vocab: token {:?} stands there twice", entry.token);
      }
      if (!ids_.insert(entry.id).second) {
        return Corrupt("model.vocab: id {} belongs to two tokens", entry.id);
      }
    }
    return {};
  }

  Status ReadAddedTokens() {
    const Json& list = Member(root_, "added_tokens");
    if (list.is_null()) return {};
    if (!list.is_array()) return Corrupt("added_tokens is not a list");
    std::unordered_set<std::string> contents;
    std::unordered_set<TokenId> ids;
    for (size_t i = 0; i < list.size(); ++i) {
      SS_ASSIGN_OR_RETURN(AddedToken token, ReadAddedToken(list[i], i));
      if (!contents.insert(token.content).second || !ids.insert(token.id).second) {
        return Corrupt("added_tokens[{}]: its id or content stands there twice", i);
      }
      // The literal may be a vocabulary entry too, but then under the same id, and no other
      // entry may have the id.
      const auto twin = vocab_.find(token.content);
      const bool same = twin != vocab_.end() && twin->second == token.id;
      if (!same && (twin != vocab_.end() || ids_.contains(token.id))) {
        return Corrupt("added_tokens[{}]: id {} and content {:?} contradict model.vocab", i,
                       token.id, token.content);
      }
      spec_.added.push_back(std::move(token));
    }
    return {};
  }

  Result<AddedToken> ReadAddedToken(const Json& value, size_t index) const {
    const Json& id = Member(value, "id");
    const Json& content = Member(value, "content");
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= kTokenIdEnd) {
      return Corrupt("added_tokens[{}].id is not an id from 0 to {}", index, kTokenIdEnd - 1);
    }
    if (!content.is_string() || content.get_ref<const std::string&>().empty()) {
      return Corrupt("added_tokens[{}].content is not text", index);
    }
    AddedToken token{id.get<TokenId>(), content.get<std::string>(), false};
    if (token.content.size() > kLongestAddedToken) {
      return Unsupported("added_tokens[{}].content has {} bytes, more than {}", index,
                         token.content.size(), kLongestAddedToken);
    }
    for (const char* flag : {"lstrip", "rstrip", "single_word", "normalized", "special"}) {
      const Json& flag_value = Member(value, flag);
      if (!flag_value.is_boolean())
        return Corrupt("added_tokens[{}].{} is no boolean", index, flag);
      if (std::string_view(flag) == "special") {
        token.special = flag_value.get<bool>();
      } else if (flag_value.get<bool>()) {
        return Unsupported("added_tokens[{}].{} is true", index, flag);
      }
    }
    return token;
  }

  const Json& root_;
  std::string_view name_;
  TokenizerSpec& spec_;
  std::unordered_map<std::string_view, TokenId> vocab_;  // model.vocab
  std::unordered_set<TokenId> ids_;                      // its ids
};

}  // namespace

Result<TokenizerSpec> ParseTokenizerJson(std::string_view bytes, std::string_view name) {
  TokenizerSpec spec;
  try {
    BigParts big(spec);
    const Json root = Json::parse(bytes, std::ref(big));
    if (std::string problem = big.Problem(); !problem.empty()) {
      return Fail(ErrorCode::kCorrupt, fmt::format("{}: {}", name, problem));
    }
    SS_RETURN_IF_ERROR(SpecReader(root, name, spec).Read());
    return spec;
  } catch (const std::bad_alloc&) {
    return Fail(ErrorCode::kResourceLimit, fmt::format("{}: no memory to read it", name));
  } catch (const std::exception& error) {
    return Fail(ErrorCode::kCorrupt, fmt::format("{}: {}", name, error.what()));
  }
}

}  // namespace slotstream::text
