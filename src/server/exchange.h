// One generation, from its acceptance to its end.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "engine/engine.h"
#include "server/call_spacing.h"
#include "server/reply_writer.h"
#include "server/response_stream.h"
#include "server/server_stats.h"

namespace slotstream::server {

// Connects an engine's job with a dialect's writer: the job's events come from the engine's
// thread, keep-alives and cancels from the HTTP thread; the writer sees one at a time.
class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  using Clock = std::chrono::steady_clock;

  // `key` names the client for the queue's fairness. The request's ids are encoded. `memory` is
  // let go with the exchange.
  Exchange(engine::Request request, const PromptCount& prompt, std::unique_ptr<ReplyWriter> writer,
           std::shared_ptr<ResponseStream> response, std::string key, ServerStats& stats,
           std::shared_ptr<void> memory = nullptr);

  const std::string& key() const { return key_; }

  // Accepted: the writer begins.
  void Begin();
  // Hands the request to the engine; `ended` is called on the engine's thread, last of all.
  void Run(engine::Engine& engine, std::function<void()> ended);
  // Ends it without an answer: nobody waits for one any more.
  void Cancel();
  // Ends it with an error: what waits does not begin, what runs is cancelled.
  void Fail(const ApiError& error);
  // True when its first token should have come: it was accepted longer than `limit` ago.
  bool Late(Clock::time_point now, Clock::duration limit);
  // Keeps the client waiting when nothing was written for `quiet`.
  void KeepAlive(Clock::time_point now, Clock::duration quiet);

 private:
  void CountRead();
  engine::RequestObserver Observe(engine::Engine& engine, std::function<void()> ended);
  void Finish(const Result<generate::GenerationResult>& result);

  engine::Request request_;
  const PromptCount prompt_;
  const std::string key_;
  const std::shared_ptr<ResponseStream> response_;
  ServerStats& stats_;
  const std::shared_ptr<void> memory_;
  std::mutex mutex_;  // for all below
  std::unique_ptr<ReplyWriter> writer_;
  CallSpacing spacing_;
  std::shared_ptr<engine::Job> job_;
  bool cancelled_ = false;
  bool read_ = false;  // the whole prompt, so that the first token is there
  bool over_ = false;  // the writer had its last call
  uint64_t written_ = 0;
  const Clock::time_point accepted_ = Clock::now();
  Clock::time_point last_write_ = accepted_;
};

}  // namespace slotstream::server
