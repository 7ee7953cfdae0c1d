#include "generate/text_scanner.h"

#include <string_view>

namespace slotstream::generate {
namespace {

using Kind = ScanStep::Kind;

constexpr std::string_view kEndTag = "\n</parameter>";
constexpr std::string_view kBareTag = "</parameter>";

enum State : uint8_t {
  kClean,
  // In a character of several bytes (Unicode table 3-7): so many more, or the restricted second.
  kMore1,
  kMore2,
  kMore3,
  kAfterE0,
  kAfterED,
  kAfterF0,
  kAfterF4,
  // In an escape: after the backslash; hexadecimal digits of \u; a high surrogate's last two
  // digits, and what must follow it.
  kEscape,
  kHex1,
  kHex2,
  kHex2AfterD,
  kHex3,
  kHex4,
  kHigh3,
  kHigh4,
  kLowBackslash,
  kLowU,
  kLowD,
  kLowC,
  // kTag + n: the text ends with the first n bytes of kEndTag, 1 <= n <= 12.
  kTag,
  kTagLast = kTag + kMostPendingBytes,
  // kBare + n: with the first n bytes of kBareTag, without a line break before, 1 <= n <= 11.
  kBare,
  kBareLast = kBare + 11,
  // Of kGuessed: nothing yet; the first n bytes of true, of false; a minus or digits.
  kNothing,
  kTrue,
  kTrueLast = kTrue + 4,
  kFalse,
  kFalseLast = kFalse + 5,
  kDigits,
  kEndOfStates
};
static_assert(kEndOfStates <= kScanStates);

ScanStep Stay(int state, int added) {
  return {Kind::kStay, static_cast<uint8_t>(state), static_cast<uint8_t>(added)};
}

// The first byte of a character outside of ASCII.
ScanStep Lead(uint8_t byte, int added) {
  if (byte >= 0xC2 && byte <= 0xDF) return Stay(kMore1, added);
  if (byte == 0xE0) return Stay(kAfterE0, added);
  if (byte == 0xED) return Stay(kAfterED, added);
  if (byte >= 0xE1 && byte <= 0xEF) return Stay(kMore2, added);
  if (byte == 0xF0) return Stay(kAfterF0, added);
  if (byte >= 0xF1 && byte <= 0xF3) return Stay(kMore3, added);
  if (byte == 0xF4) return Stay(kAfterF4, added);
  return {};
}

ScanStep Continuation(uint8_t state, uint8_t byte) {
  uint8_t low = 0x80, high = 0xBF;
  int next = kClean;
  switch (state) {
    case kMore2:
      next = kMore1;
      break;
    case kMore3:
      next = kMore2;
      break;
    case kAfterE0:
      low = 0xA0;
      next = kMore1;
      break;
    case kAfterED:
      high = 0x9F;
      next = kMore1;
      break;
    case kAfterF0:
      low = 0x90;
      next = kMore2;
      break;
    case kAfterF4:
      high = 0x8F;
      next = kMore2;
      break;
    default:
      break;
  }
  return byte >= low && byte <= high ? Stay(next, 0) : ScanStep{};
}

bool IsHex(uint8_t byte) {
  return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'f') ||
         (byte >= 'A' && byte <= 'F');
}

ScanStep Escape(uint8_t state, uint8_t byte) {
  const uint8_t lower = byte | 0x20;  // of a letter
  switch (state) {
    case kEscape:
      if (byte == 'u') return Stay(kHex1, 0);
      return std::string_view("\"\\/bfnrt").find(static_cast<char>(byte)) != std::string_view::npos
                 ? Stay(kClean, 0)
                 : ScanStep{};
    case kHex1:
      if (!IsHex(byte)) return {};
      return Stay(lower == 'd' ? kHex2AfterD : kHex2, 0);
    case kHex2AfterD:  // D8 to DB begin a pair, DC to DF can't stand alone
      if (byte >= '0' && byte <= '7') return Stay(kHex3, 0);
      if (byte == '8' || byte == '9' || lower == 'a' || lower == 'b') return Stay(kHigh3, 0);
      return {};
    case kHex2:
      return IsHex(byte) ? Stay(kHex3, 0) : ScanStep{};
    case kHex3:
      return IsHex(byte) ? Stay(kHex4, 0) : ScanStep{};
    case kHex4:
      return IsHex(byte) ? Stay(kClean, 0) : ScanStep{};
    case kHigh3:
      return IsHex(byte) ? Stay(kHigh4, 0) : ScanStep{};
    case kHigh4:
      return IsHex(byte) ? Stay(kLowBackslash, 0) : ScanStep{};
    case kLowBackslash:
      return byte == '\\' ? Stay(kLowU, 0) : ScanStep{};
    case kLowU:
      return byte == 'u' ? Stay(kLowD, 0) : ScanStep{};
    case kLowD:
      return lower == 'd' ? Stay(kLowC, 0) : ScanStep{};
    default:  // kLowC: DC to DF
      return lower >= 'c' && lower <= 'f' ? Stay(kHex3, 0) : ScanStep{};
  }
}

ScanStep Json(uint8_t state, uint8_t byte, bool escapes, bool in_call) {
  if (state >= kMore1 && state <= kAfterF4) return Continuation(state, byte);
  if (state >= kEscape && state <= kLowC) return Escape(state, byte);
  if (state > kBare) {
    const int n = state - kBare;
    if (byte == kBareTag[static_cast<size_t>(n)]) {
      return state == kBareLast ? ScanStep{} : Stay(state + 1, 1);
    }
  }
  if (byte == '"') return {Kind::kEnd, kClean, 0};
  if (byte == '\\') return escapes ? Stay(kEscape, 1) : ScanStep{};
  if (byte < 0x20) return {};
  if (byte == '<' && in_call) return Stay(kBare + 1, 1);
  return byte < 0x80 ? Stay(kClean, 1) : Lead(byte, 1);
}

// A byte after text that no longer can be the tag; `pending` bytes turned out to be content.
ScanStep RawContent(uint8_t byte, int pending) {
  if (byte == '\n') return Stay(kTag + 1, pending);
  if (byte == '<') return Stay(kBare + 1, pending + 1);
  if ((byte < 0x20 && byte != '\t' && byte != '\r') || byte == 0x7F) return {};
  return byte < 0x80 ? Stay(kClean, pending + 1) : Lead(byte, pending + 1);
}

ScanStep Raw(uint8_t state, uint8_t byte) {
  if (state >= kMore1 && state <= kAfterF4) return Continuation(state, byte);
  if (state > kBare && state <= kBareLast) {
    if (byte == kBareTag[static_cast<size_t>(state - kBare)]) {
      return state == kBareLast ? ScanStep{} : Stay(state + 1, 1);
    }
    return RawContent(byte, 0);
  }
  if (state > kTag && state <= kTagLast) {
    const int n = state - kTag;
    if (byte == static_cast<uint8_t>(kEndTag[static_cast<size_t>(n)])) {
      return state == kTagLast ? ScanStep{Kind::kEnd, kClean, 0} : Stay(state + 1, 0);
    }
    return RawContent(byte, n);
  }
  return RawContent(byte, 0);
}

// What would be taken for a JSON value has no end here.
ScanStep Guessed(uint8_t state, uint8_t byte) {
  if (state < kNothing) return Raw(state, byte);
  if (state == kNothing) {
    if (byte == '{' || byte == '[') return {};
    if (byte == 't') return Stay(kTrue + 1, 1);
    if (byte == 'f') return Stay(kFalse + 1, 1);
    if (byte == '-' || (byte >= '0' && byte <= '9')) return Stay(kDigits, 1);
    return RawContent(byte, 0);
  }
  constexpr std::string_view true_word = "true", false_word = "false";
  if (state > kTrue && state < kTrueLast &&
      byte == static_cast<uint8_t>(true_word[static_cast<size_t>(state - kTrue)])) {
    return Stay(state + 1, 1);
  }
  if (state > kFalse && state < kFalseLast &&
      byte == static_cast<uint8_t>(false_word[static_cast<size_t>(state - kFalse)])) {
    return Stay(state + 1, 1);
  }
  if (state == kDigits && byte >= '0' && byte <= '9') return Stay(kDigits, 1);
  const bool value = state == kTrueLast || state == kFalseLast || state == kDigits;
  return value && byte == '\n' ? ScanStep{} : RawContent(byte, 0);
}

}  // namespace

uint8_t ScanStart(TextForm form) { return form == TextForm::kGuessed ? kNothing : kClean; }

ScanStep Scan(TextForm form, uint8_t state, uint8_t byte) {
  switch (form) {
    case TextForm::kJson:
      return Json(state, byte, true, false);
    case TextForm::kJsonInCall:
      return Json(state, byte, true, true);
    case TextForm::kKey:
      return Json(state, byte, false, false);
    case TextForm::kKeyInCall:
      return Json(state, byte, false, true);
    case TextForm::kRaw:
      return Raw(state, byte);
    case TextForm::kGuessed:
      return Guessed(state, byte);
    case TextForm::kPlain:
      break;
  }
  return {};
}

unsigned PendingBytes(uint8_t state) {
  return state > kTag && state <= kTagLast ? static_cast<unsigned>(state - kTag) : 0u;
}

}  // namespace slotstream::generate
