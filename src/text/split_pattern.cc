#include "text/split_pattern.h"

#include <fmt/format.h>

#include <optional>

namespace slotstream::text {
namespace {

// The longest real pattern (GPT-4o's) has 300 characters.
constexpr size_t kLongestPattern = 4096;

constexpr std::string_view kSpaces =
    R"(\x09-\x0D\x20\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

// Members of each category in Unicode 16 (DerivedGeneralCategory.txt) that Unicode 14 left
// unassigned.
constexpr std::string_view kNewLetters =
    R"(\x{1C89}-\x{1C8A}\x{A7CB}-\x{A7CD}\x{A7DA}-\x{A7DC}\x{105C0}-\x{105F3})"
    R"(\x{10D4A}-\x{10D65}\x{10D6F}-\x{10D85}\x{10EC2}-\x{10EC4}\x{1123F}-\x{11240})"
    R"(\x{11380}-\x{11389}\x{1138B}\x{1138E}\x{11390}-\x{113B5}\x{113B7}\x{113D1}\x{113D3})"
    R"(\x{11BC0}-\x{11BE0}\x{11F02}\x{11F04}-\x{11F10}\x{11F12}-\x{11F33}\x{1342F})"
    R"(\x{13441}-\x{13446}\x{13460}-\x{143FA}\x{16100}-\x{1611D}\x{16D40}-\x{16D6C}\x{18CFF})"
    R"(\x{1B132}\x{1B155}\x{1DF25}-\x{1DF2A}\x{1E030}-\x{1E06D}\x{1E4D0}-\x{1E4EB})"
    R"(\x{1E5D0}-\x{1E5ED}\x{1E5F0}\x{2B739}\x{2EBF0}-\x{2EE5D}\x{31350}-\x{323AF})";

constexpr std::string_view kNewMarks =
    R"(\x{897}\x{CF3}\x{ECE}\x{10D69}-\x{10D6D}\x{10EFC}-\x{10EFF}\x{11241}\x{113B8}-\x{113C0})"
    R"(\x{113C2}\x{113C5}\x{113C7}-\x{113CA}\x{113CC}-\x{113D0}\x{113D2}\x{113E1}-\x{113E2})"
    R"(\x{11F00}-\x{11F01}\x{11F03}\x{11F34}-\x{11F3A}\x{11F3E}-\x{11F42}\x{11F5A}\x{13440})"
    R"(\x{13447}-\x{13455}\x{1611E}-\x{1612F}\x{1E08F}\x{1E4EC}-\x{1E4EF}\x{1E5EE}-\x{1E5EF})";

constexpr std::string_view kNewNumbers =
    R"(\x{10D40}-\x{10D49}\x{116D0}-\x{116E3}\x{11BF0}-\x{11BF9}\x{11F50}-\x{11F59})"
    R"(\x{16130}-\x{16139}\x{16D70}-\x{16D79}\x{1CCF0}-\x{1CCF9}\x{1D2C0}-\x{1D2D3})"
    R"(\x{1E4F0}-\x{1E4F9}\x{1E5F1}-\x{1E5FA})";

std::optional<std::string_view> NewMembers(char category) {
  switch (category) {
    case 'L':
      return kNewLetters;
    case 'M':
      return kNewMarks;
    case 'N':
      return kNewNumbers;
    default:
      return std::nullopt;
  }
}

bool IsPunctuation(char c) {
  return std::string_view("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~").find(c) != std::string_view::npos;
}

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  Result<std::string> Run() {
    while (at_ < pattern_.size()) SS_RETURN_IF_ERROR(Item());
    return std::move(out_);
  }

 private:
  std::unexpected<Error> Refuse(std::string_view what) const {
    return Fail(ErrorCode::kUnsupported,
                fmt::format("split pattern: {} at offset {} is not supported", what, at_));
  }

  bool At(std::string_view prefix) const { return pattern_.substr(at_).starts_with(prefix); }

  Status Copy(size_t count) {
    out_.append(pattern_.substr(at_, count));
    at_ += count;
    return {};
  }

  Status Item() {
    switch (pattern_[at_]) {
      case '\\':
        return Escape(/*in_class=*/false);
      case '[':
        return Class();
      case '^':
      case '$':
        return Refuse("an anchor");
      case '(':
        return Group();
      case '}': {
        if (pattern_.substr(at_ + 1).starts_with('+')) return Refuse("'+' after an interval");
        return Copy(1);
      }
      default:
        return Copy(1);
    }
  }

  Status Group() {
    for (std::string_view open : {"(?:", "(?i:", "(?!", "(?=", "(?<!", "(?<="}) {
      if (At(open)) return Copy(open.size());
    }
    if (At("(?") || At("(*")) return Refuse("this kind of group");
    return Copy(1);
  }

  Status Class() {
    SS_RETURN_IF_ERROR(Copy(At("[^") ? 2 : 1));
    if (At("]")) return Refuse("an empty class");
    while (at_ < pattern_.size() && pattern_[at_] != ']') {
      if (pattern_[at_] == '\\') {
        SS_RETURN_IF_ERROR(Escape(/*in_class=*/true));
      } else if (pattern_[at_] == '[') {
        return Refuse("a class in a class");
      } else if (At("&&")) {
        return Refuse("an intersection of classes");
      } else {
        SS_RETURN_IF_ERROR(Copy(1));
      }
    }
    if (at_ == pattern_.size()) return Refuse("a class without an end");
    return Copy(1);
  }

  Status Escape(bool in_class) {
    if (at_ + 1 == pattern_.size()) return Refuse("a backslash at the end");
    const char c = pattern_[at_ + 1];
    if (c == 'r' || c == 'n' || c == 't' || IsPunctuation(c)) return Copy(2);
    if (c == 's') return Emit(kSpaces, "[", in_class, 2);
    if (c == 'S' && !in_class) return Emit(kSpaces, "[^", in_class, 2);
    if (c == 'p' && pattern_.size() >= at_ + 5 && pattern_[at_ + 2] == '{' &&
        pattern_[at_ + 4] == '}') {
      const char category = pattern_[at_ + 3];
      if (auto members = NewMembers(category)) {
        return Emit(fmt::format("\\p{{{}}}{}", category, *members), "[", in_class, 5);
      }
    }
    return Refuse("this escape");
  }

  // Appends class members, in brackets of their own outside a class, and skips their source.
  Status Emit(std::string_view members, std::string_view open, bool in_class, size_t source) {
    if (!in_class) out_.append(open);
    out_.append(members);
    if (!in_class) out_.push_back(']');
    at_ += source;
    return {};
  }

  std::string_view pattern_;
  size_t at_ = 0;
  std::string out_;
};

}  // namespace

Result<std::string> TranslateSplitPattern(std::string_view pattern) {
  if (pattern.size() > kLongestPattern) {
    return Fail(ErrorCode::kUnsupported, fmt::format("split pattern: {} bytes, more than {}",
                                                     pattern.size(), kLongestPattern));
  }
  return Translator(pattern).Run();
}

}  // namespace slotstream::text
