#include "text/pretokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <string>

#include "text/split_pattern.h"

namespace slotstream::text {
namespace {

// A real pattern backtracks about once a byte, in runs of white space. The allowance of 16 a byte
// over PCRE2's default is for those; a pattern that needs more is hostile.
constexpr uint64_t kMatchLimitBase = 10'000'000;
constexpr uint64_t kMatchLimitPerByte = 16;
// For the interpreter, which serves where PCRE2 has no JIT: its backtracking memory.
constexpr uint32_t kHeapLimitKib = 256 * 1024;
// Real patterns need none of the JIT's stack beyond its first 32 KiB.
constexpr size_t kJitStackStart = 32 * 1024;
constexpr size_t kJitStackLimit = 1024 * 1024;

std::string PcreMessage(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

template <auto kFree>
struct Freer {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};

using CompileContext = std::unique_ptr<pcre2_compile_context, Freer<pcre2_compile_context_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Freer<pcre2_match_context_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Freer<pcre2_match_data_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, Freer<pcre2_jit_stack_free>>;

}  // namespace

void Pretokenizer::FreeCode::operator()(pcre2_real_code_8* code) const { pcre2_code_free(code); }

Result<Pretokenizer> Pretokenizer::Compile(std::string_view pattern) {
  SS_ASSIGN_OR_RETURN(const std::string translated, TranslateSplitPattern(pattern));
  CompileContext context(pcre2_compile_context_create(nullptr));
  if (!context) return Fail(ErrorCode::kResourceLimit, "split pattern: no memory to compile it");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);

  int error = 0;
  PCRE2_SIZE offset = 0;
  Pretokenizer result;
  result.code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()),
                                   translated.size(), PCRE2_UTF | PCRE2_UCP, &error, &offset,
                                   context.get()));
  if (!result.code_) {
    return Fail(ErrorCode::kUnsupported,
                fmt::format("split pattern does not compile: {}", PcreMessage(error)));
  }
  uint32_t matches_empty = 0;
  pcre2_pattern_info(result.code_.get(), PCRE2_INFO_MATCHEMPTY, &matches_empty);
  if (matches_empty != 0) {
    return Fail(ErrorCode::kUnsupported, "split pattern can match the empty string");
  }
  // A failure means that PCRE2 has no JIT here; the interpreter then gives the same matches.
  pcre2_jit_compile(result.code_.get(), PCRE2_JIT_COMPLETE);
  return result;
}

struct WordCursor::MatchState {
  MatchContext context;
  JitStack stack;
  MatchData data;
};

WordCursor::WordCursor(const Pretokenizer& pretokenizer, std::string_view text)
    : pretokenizer_(pretokenizer), text_(text), state_(std::make_unique<MatchState>()) {
  state_->context.reset(pcre2_match_context_create(nullptr));
  state_->stack.reset(pcre2_jit_stack_create(kJitStackStart, kJitStackLimit, nullptr));
  state_->data.reset(pcre2_match_data_create_from_pattern(pretokenizer.code_.get(), nullptr));
  if (!state_->context) return;
  const uint64_t limit = kMatchLimitBase + kMatchLimitPerByte * text.size();
  pcre2_set_match_limit(state_->context.get(),
                        static_cast<uint32_t>(std::min<uint64_t>(limit, UINT32_MAX)));
  pcre2_set_heap_limit(state_->context.get(), kHeapLimitKib);
  if (state_->stack) pcre2_jit_stack_assign(state_->context.get(), nullptr, state_->stack.get());
}

WordCursor::~WordCursor() = default;

Result<std::string_view> WordCursor::Next() {
  if (offset_ == text_.size()) return std::string_view{};
  if (!state_->context || !state_->data) {
    return Fail(ErrorCode::kResourceLimit, "no memory to match the split pattern");
  }
  const int count = pcre2_match(pretokenizer_.code_.get(),
                                reinterpret_cast<PCRE2_SPTR>(text_.data()), text_.size(), offset_,
                                PCRE2_NO_UTF_CHECK, state_->data.get(), state_->context.get());
  size_t end = text_.size();
  if (count >= 0) {
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(state_->data.get());
    end = range[0] > offset_ ? range[0] : range[1];
  } else if (count != PCRE2_ERROR_NOMATCH) {
    return Fail(ErrorCode::kResourceLimit, fmt::format("split pattern at byte {} of the text: {}",
                                                       offset_, PcreMessage(count)));
  }
  const std::string_view word = text_.substr(offset_, end - offset_);
  offset_ = end;
  return word;
}

}  // namespace slotstream::text
