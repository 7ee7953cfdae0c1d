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
#include "engine/prefix_reuse.h"
#include "engine/prompt_encoder.h"
#include "engine/request.h"
#include "generate/generator.h"

namespace slotstream::generate {
class VocabularyIndex;
}  // namespace slotstream::generate

namespace slotstream::engine {

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
  PrefixDiskOptions prefix_disk = {};
};

// Runs requests one after another on a thread of its own. Its methods are safe from any thread.
class Engine {
 public:
  explicit Engine(std::unique_ptr<LoadedModel> loaded, EngineOptions options = {});
  // Cancels what is running and what waits.
  ~Engine();

  std::shared_ptr<Job> Submit(Request request, RequestObserver observer);

  // The prompt of `request` as ids, `reply_start` included, so that a caller may know its length
  // before it submits; replies of this engine get the ids that they were made of. Errors: those of
  // the chat template and the tokenizer, kNotFound without a tokenizer.
  Result<EncodedPrompt> Encode(const Request& request);

  // Facts that never change; statistics between requests.
  const LoadedModel& loaded() const { return *loaded_; }
  PrefixReuse& prefixes() { return prefixes_; }

 private:
  void WorkerLoop();
  Result<generate::GenerationResult> Run(Job& job);

  std::unique_ptr<LoadedModel> loaded_;
  std::unique_ptr<generate::VocabularyIndex>
      vocabulary_;  // the worker's, from its first constraint
  const Clock& clock_;
  PrefixReuse prefixes_;
  MemoryGovernor governor_;  // the worker's
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::shared_ptr<Job>> queue_;
  std::shared_ptr<Job> running_;
  bool stop_ = false;
  std::thread worker_;
};

}  // namespace slotstream::engine
