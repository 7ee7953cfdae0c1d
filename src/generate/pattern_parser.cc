#include "generate/pattern_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "text/utf8.h"

namespace slotstream::generate {
namespace {

// Counted repetitions are written out, so this bounds what a short text can make of itself.
constexpr size_t kMostStates = 4000;
constexpr int kDeepestGroups = 50;

const CharRanges kDigits = {{'0', '9'}};
const CharRanges kWords = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const CharRanges kSpaces = {{'\t', '\r'}, {' ', ' '}};
const CharRanges kLineEnds = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

}  // namespace

PatternParser::PatternParser(std::string_view text, const CharRanges& barred, Pattern& pattern)
    : barred_(barred), pattern_(pattern) {
  while (!text.empty()) {
    const text::Scalar scalar = text::NextScalar(text);
    valid_ = valid_ && scalar.kind == text::Scalar::Kind::kValid;
    text_.push_back(scalar.code_point);
    text.remove_prefix(scalar.length);
  }
}

std::unexpected<Error> PatternParser::Refuse(std::string_view what) const {
  return Fail(ErrorCode::kUnsupported, fmt::format("at its character {}: {}", at_ + 1, what));
}

bool PatternParser::Eat(char32_t c) {
  if (AtEnd() || text_[at_] != c) return false;
  ++at_;
  return true;
}

uint32_t PatternParser::Add() {
  pattern_.states_.emplace_back();
  return static_cast<uint32_t>(pattern_.states_.size() - 1);
}

PatternParser::Part PatternParser::Reader(const CharRanges& ranges) {
  const Part part{Add(), Add()};
  pattern_.states_[part.first].ranges = Without(ranges, barred_);
  pattern_.states_[part.first].next = part.last;
  return part;
}

PatternParser::Part PatternParser::Empty() {
  const uint32_t state = Add();
  return {state, state};
}

PatternParser::Part PatternParser::Join(Part first, Part second) {
  pattern_.states_[first.last].free.push_back(second.first);
  return {first.first, second.last};
}

PatternParser::Part PatternParser::AnyRun() {
  const Part any = Reader({{0, kLastCharacter}});
  const Part run = Empty();
  pattern_.states_[run.first].free.push_back(any.first);
  pattern_.states_[any.last].free.push_back(run.first);
  return run;
}

Status PatternParser::Run() {
  if (!valid_) return Refuse("no UTF-8");
  SS_ASSIGN_OR_RETURN(const Part whole, Alternatives(/*top=*/true));
  if (!AtEnd()) return Refuse("a bracket that nothing opens");
  pattern_.start_ = whole.first;
  pattern_.end_ = whole.last;
  return {};
}

Result<PatternParser::Part> PatternParser::Alternatives(bool top) {
  SS_ASSIGN_OR_RETURN(Part all, Branch(top));
  while (Eat('|')) {
    SS_ASSIGN_OR_RETURN(const Part other, Branch(top));
    const Part both{Add(), Add()};
    pattern_.states_[both.first].free = {all.first, other.first};
    pattern_.states_[all.last].free.push_back(both.last);
    pattern_.states_[other.last].free.push_back(both.last);
    all = both;
  }
  return all;
}

Result<PatternParser::Part> PatternParser::Branch(bool top) {
  Part part = top && !Eat('^') ? AnyRun() : Empty();
  bool closed = !top;
  while (!AtEnd() && Peek() != '|' && Peek() != ')') {
    if (top && Peek() == '$' && (at_ + 1 == text_.size() || text_[at_ + 1] == '|')) {
      ++at_;
      closed = true;
      break;
    }
    SS_ASSIGN_OR_RETURN(const Part next, Repeated());
    part = Join(part, next);
  }
  return closed ? part : Join(part, AnyRun());
}

uint64_t PatternParser::Digits() {
  uint64_t number = 0;
  while (Peek() >= '0' && Peek() <= '9') {
    number = std::min<uint64_t>(number * 10 + (text_[at_++] - U'0'), 1'000'000);
  }
  return number;
}

Result<PatternParser::Part> PatternParser::Repeated() {
  const size_t begin = at_;
  SS_ASSIGN_OR_RETURN(const Part once, Atom());
  uint64_t least = 1, most = 1;
  if (Eat('*')) {
    least = 0;
    most = UINT64_MAX;
  } else if (Eat('+')) {
    most = UINT64_MAX;
  } else if (Eat('?')) {
    least = 0;
  } else if (Eat('{')) {
    if (Peek() < '0' || Peek() > '9') return Refuse("no count in {}");
    least = most = Digits();
    if (Eat(',')) most = Peek() == '}' ? UINT64_MAX : Digits();
    if (!Eat('}') || most < least) return Refuse("a count that is none");
  } else {
    return once;
  }
  Eat('?');  // lazy or not, the same texts fit
  const size_t end = at_;
  auto part = Repeat(begin, once, least, most);
  at_ = end;
  return part;
}

// What stands from `begin` on, read again for each further time.
Result<PatternParser::Part> PatternParser::Repeat(size_t begin, Part once, uint64_t least,
                                                  uint64_t most) {
  const bool endless = most == UINT64_MAX;
  const uint64_t copies = endless ? std::max<uint64_t>(least, 1) : most;
  Part all = Empty();
  const uint32_t exit = Add();
  for (uint64_t i = 0; i < copies; ++i) {
    if (pattern_.states_.size() > kMostStates) break;
    Part part = once;
    if (i > 0) {
      at_ = begin;
      SS_ASSIGN_OR_RETURN(part, Atom());
    }
    if (i >= least) pattern_.states_[all.last].free.push_back(exit);
    all = Join(all, part);
    if (endless && i + 1 == copies) pattern_.states_[part.last].free.push_back(part.first);
  }
  if (pattern_.states_.size() > kMostStates) {
    return Fail(ErrorCode::kResourceLimit,
                fmt::format("its repetitions make more than {} states", kMostStates));
  }
  pattern_.states_[all.last].free.push_back(exit);
  return Part{all.first, exit};
}

Result<PatternParser::Part> PatternParser::Atom() {
  if (pattern_.states_.size() > kMostStates) {
    return Fail(ErrorCode::kResourceLimit, fmt::format("more than {} states", kMostStates));
  }
  const char32_t c = Peek();
  if (c == '(') {
    ++at_;
    if (Eat('?') && !Eat(':')) return Refuse("only (?: is supported");
    if (++depth_ > kDeepestGroups) return Refuse("groups too deep");
    SS_ASSIGN_OR_RETURN(const Part group, Alternatives(/*top=*/false));
    --depth_;
    if (!Eat(')')) return Refuse("a group has no end");
    return group;
  }
  if (c == '^' || c == '$') return Refuse("^ and $ are supported at the ends only");
  if (c == '*' || c == '+' || c == '?' || c == '{') return Refuse("nothing to repeat");
  ++at_;
  if (c == '.') return Reader(Complement(kLineEnds, kLastCharacter));
  if (c == '[') {
    SS_ASSIGN_OR_RETURN(const CharRanges ranges, Class());
    return Reader(ranges);
  }
  if (c == '\\') {
    SS_ASSIGN_OR_RETURN(const CharRanges ranges, Escape(/*in_class=*/false));
    return Reader(ranges);
  }
  return Reader({{c, c}});
}

Result<CharRanges> PatternParser::Class() {
  const bool negated = Eat('^');
  CharRanges ranges;
  while (!Eat(']')) {
    if (AtEnd()) return Refuse("a class has no end");
    CharRanges one = {{Peek(), Peek()}};
    if (text_[at_++] == '\\') {
      SS_ASSIGN_OR_RETURN(one, Escape(/*in_class=*/true));
    }
    const bool single = one.size() == 1 && one[0].first == one[0].second;
    if (single && Peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
      ++at_;
      CharRanges last = {{Peek(), Peek()}};
      if (text_[at_++] == '\\') {
        SS_ASSIGN_OR_RETURN(last, Escape(/*in_class=*/true));
      }
      if (last.size() != 1 || last[0].first != last[0].second || last[0].first < one[0].first) {
        return Refuse("a range that is none");
      }
      one[0].second = last[0].second;
    }
    ranges.insert(ranges.end(), one.begin(), one.end());
  }
  return negated ? Complement(ranges, kLastCharacter) : Sorted(ranges);
}

Result<char32_t> PatternParser::Hex(int digits) {
  char32_t value = 0;
  for (int i = 0; i < digits; ++i) {
    const char32_t c = Peek();
    const char32_t lower = c | 0x20;
    if (c >= '0' && c <= '9') {
      value = value * 16 + (c - '0');
    } else if (lower >= 'a' && lower <= 'f') {
      value = value * 16 + (lower - 'a' + 10);
    } else {
      return Refuse("not a hexadecimal digit");
    }
    ++at_;
  }
  return value;
}

Result<CharRanges> PatternParser::Escape(bool in_class) {
  if (AtEnd()) return Refuse("nothing behind the backslash");
  const char32_t c = text_[at_++];
  // The opposites within ASCII alone: engines differ in what else is a digit or a space.
  constexpr char32_t ascii = 0x7F;
  switch (c) {
    case 'd':
      return kDigits;
    case 'w':
      return kWords;
    case 's':
      return kSpaces;
    case 'D':
      return Complement(kDigits, ascii);
    case 'W':
      return Complement(kWords, ascii);
    case 'S':
      return Complement(kSpaces, ascii);
    case 'n':
      return CharRanges{{'\n', '\n'}};
    case 't':
      return CharRanges{{'\t', '\t'}};
    case 'r':
      return CharRanges{{'\r', '\r'}};
    case 'f':
      return CharRanges{{'\f', '\f'}};
    case 'v':
      return CharRanges{{'\v', '\v'}};
    case 'x':
    case 'u': {
      SS_ASSIGN_OR_RETURN(const char32_t value, Hex(c == 'x' ? 2 : 4));
      return CharRanges{{value, value}};
    }
    default:
      break;
  }
  const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  if (letter && !(in_class && c == 'b')) return Refuse("this escape is not supported");
  return c == 'b' ? CharRanges{{'\b', '\b'}} : CharRanges{{c, c}};
}

}  // namespace slotstream::generate
