// Conversations for the prefix cache's tests, and engines to have them with.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/test_support.h"
#include "text/chat_template.h"

namespace slotstream::engine {

inline constexpr uint64_t kCacheBytes = 400'000'000;

inline LoadOptions Options(uint64_t prefix_bytes,
                           const std::string& directory = MiniatureDirectory()) {
  LoadOptions options;
  options.directory = directory;
  options.wishes = {.slots = UINT32_MAX,
                    .pass_rows = 256,
                    .memory_bytes = 2'000'000'000,
                    .max_context = 8192,
                    .threads = 2,
                    .prefix_cache_bytes = prefix_bytes};
  return options;
}

inline std::unique_ptr<Engine> MakeEngine(uint64_t prefix_bytes,
                                          const PrefixDiskOptions& disk = {}) {
  auto loaded = LoadForTest(Options(prefix_bytes));
  EXPECT_TRUE(loaded) << loaded.error().message;
  EngineOptions options;
  options.prefix_disk = disk;
  return std::make_unique<Engine>(std::move(*loaded), std::move(options));
}

inline PrefixDiskOptions Disk(std::string directory, uint64_t min_tokens) {
  PrefixDiskOptions disk;
  disk.directory = std::move(directory);
  disk.min_tokens = min_tokens;
  return disk;
}

inline text::ChatMessage Message(text::Role role, std::string text) {
  return {.role = role,
          .content = {{text::ContentItem::Kind::kText, std::move(text)}},
          .reasoning = {},
          .tool_calls = {}};
}

// At least `tokens` tokens of words.
inline std::string LongText(size_t tokens) {
  std::string text;
  for (size_t i = 0; i < tokens; ++i) text += i % 7 == 0 ? " fox" : " a";
  return text;
}

struct Outcome {
  Result<generate::GenerationResult> result;
  text::ChatMessage reply;
  size_t read() const { return result->prompt_tokens - result->cached_tokens; }
};

inline Request Ask(std::vector<text::ChatMessage> messages, int64_t reply = 12) {
  Request request;
  request.chat.emplace();
  request.chat->messages = std::move(messages);
  request.chat->enable_thinking = false;
  request.sampling = generate::SamplingParams::Greedy();
  request.sampling.max_tokens = reply;
  return request;
}

inline Outcome RunRequest(Engine& engine, const Request& request) {
  ReplyRecorder recorder;
  RequestObserver observer;
  observer.generation.on_event = [&](const generate::ReplyEvent& event) { recorder.Add(event); };
  auto result = engine.Submit(request, std::move(observer))->Wait();
  EXPECT_TRUE(result) << result.error().message;
  return {std::move(result), recorder.Take().value_or(text::ChatMessage{})};
}

}  // namespace slotstream::engine
