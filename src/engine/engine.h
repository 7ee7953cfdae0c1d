// What the command line and the server use: submit a request, receive its events, cancel it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/loaded_model.h"
#include "engine/memory_governor.h"
#include "generate/generator.h"
#include "text/added_tokens.h"
#include "text/chat_request.h"
#include "text/tool_schema.h"

namespace slotstream::generate {
struct Constraint;
class VocabularyIndex;
}  // namespace slotstream::generate

namespace slotstream::engine {

// A request. `chat`, `text` or `ids` is the prompt; where ids are given beside another they are
// what EncodePrompt made of it.
struct Request {
  std::optional<text::ChatRequest> chat;  // through the chat template
  std::optional<std::string> text;        // as it is; control tokens in it act
  std::vector<uint32_t> ids;              // as they are
  // For a prompt by text or ids: it ends inside a reasoning block.
  bool opens_thinking = false;
  generate::SamplingParams sampling;
  uint32_t first_call_id = 0;  // see text::ToolCallParser
  bool single_call = false;    // see generate::Generation, as for the next
  std::optional<size_t> alternatives;
  // How the reply must begin, appended to the prompt and delivered as part of the reply, e.g. the
  // head of a tool call. Control tokens in it act, but not within `reply_literal` (sorted, apart).
  std::string reply_start;
  std::vector<text::TextRange> reply_literal;
  // What the reply is held to, `reply_start` included; may be null. See generate::MakeConstraint.
  std::shared_ptr<const generate::Constraint> constraint;
};

// The prompt of `request` as ids, `reply_start` included, so that a caller may know its length
// before it submits. Any thread. Errors: those of the chat template and the tokenizer.
Result<std::vector<uint32_t>> EncodePrompt(const text::Tokenizer& tokenizer,
                                           const Request& request);

// Callbacks of a request; each may be empty. They run on the engine's thread and must not block it
// for long nor call back into the engine, except Job::Cancel.
struct RequestObserver {
  std::function<void(const std::vector<uint32_t>& prompt)> on_start;
  generate::GenerationObserver generation;
  // The last call, also for a request that failed or was cancelled before it began.
  std::function<void(const Result<generate::GenerationResult>& result)> on_end;
};

// A submitted request.
class Job {
 public:
  // Stops it before the next layer; its result is then kCancelled. Any thread, any time.
  void Cancel() { cancel_.store(true, std::memory_order_relaxed); }
  // Waits for its end, at most `millis`; true if it has ended.
  bool WaitForMillis(int millis);
  // Blocks until it ended.
  Result<generate::GenerationResult> Wait();

 private:
  friend class Engine;
  Request request_;
  RequestObserver observer_;
  std::atomic<bool> cancel_ = false;
  std::mutex mutex_;
  std::condition_variable done_;
  std::optional<Result<generate::GenerationResult>> result_;
};

struct EngineOptions {
  // Told in a line what the governor changed, on the engine's thread; may be empty.
  std::function<void(std::string_view)> log = {};
  std::string system_root = {};  // see plan::ReadMachineFacts
  const Clock* clock = &Clock::Steady();
};

// Runs requests one after another on a thread of its own. Its methods are safe from any thread.
class Engine {
 public:
  explicit Engine(std::unique_ptr<LoadedModel> loaded, EngineOptions options = {});
  // Cancels what is running and what waits.
  ~Engine();

  std::shared_ptr<Job> Submit(Request request, RequestObserver observer);

  // Facts that never change; statistics between requests.
  const LoadedModel& loaded() const { return *loaded_; }

 private:
  void WorkerLoop();
  Result<generate::GenerationResult> Run(Job& job);

  std::unique_ptr<LoadedModel> loaded_;
  std::unique_ptr<generate::VocabularyIndex>
      vocabulary_;  // the worker's, from its first constraint
  const Clock& clock_;
  MemoryGovernor governor_;  // the worker's
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::shared_ptr<Job>> queue_;
  std::shared_ptr<Job> running_;
  bool stop_ = false;
  std::thread worker_;
};

}  // namespace slotstream::engine
