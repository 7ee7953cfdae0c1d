#include "server/exchange.h"

#include <fmt/format.h>

#include <utility>

namespace slotstream::server {

Exchange::Exchange(engine::Request request, const PromptCount& prompt,
                   std::unique_ptr<ReplyWriter> writer, std::shared_ptr<ResponseStream> response,
                   std::string key, ServerStats& stats, std::shared_ptr<void> memory)
    : request_(std::move(request)),
      prompt_(prompt),
      key_(std::move(key)),
      response_(std::move(response)),
      stats_(stats),
      memory_(std::move(memory)),
      writer_(std::move(writer)) {}

void Exchange::Begin() {
  std::lock_guard lock(mutex_);
  if (over_) return;
  writer_->Begin(prompt_);
}

void Exchange::Run(engine::Engine& engine, std::function<void()> ended) {
  std::lock_guard lock(mutex_);
  job_ = engine.Submit(std::move(request_), Observe(engine, std::move(ended)));
  if (cancelled_) job_->Cancel();
  stats_.CountBegun();
}

engine::RequestObserver Exchange::Observe(engine::Engine& engine, std::function<void()> ended) {
  engine::RequestObserver observer;
  const auto self = shared_from_this();
  const auto keep_stats = [self, &engine] {
    const experts::ExpertStore& experts = engine.loaded().experts();
    self->stats_.Keep(experts.stats(), engine.loaded().ngram_stats(), experts.Snapshot());
  };
  observer.on_start = [self](const std::vector<uint32_t>& prompt) {
    self->stats_.CountPrefill(0, prompt.size());
  };
  observer.generation.on_prefill = [self, keep_stats](size_t done, size_t total) {
    self->stats_.CountPrefill(done, total);
    keep_stats();
    if (done >= total) self->CountRead();
  };
  observer.generation.on_token = [self](const generate::ChosenToken& token) {
    std::lock_guard lock(self->mutex_);
    if (!self->over_) self->writer_->Token(token);
  };
  observer.generation.on_event = [self, keep_stats](const generate::ReplyEvent& event) {
    keep_stats();
    std::lock_guard lock(self->mutex_);
    if (self->over_) return;
    self->spacing_.Push(event,
                        [&](const generate::ReplyEvent& kept) { self->writer_->Event(kept); });
  };
  observer.on_end = [self, keep_stats,
                     ended = std::move(ended)](const Result<generate::GenerationResult>& result) {
    keep_stats();
    self->stats_.CountEnd(result);
    self->Finish(result);
    ended();
  };
  return observer;
}

void Exchange::Finish(const Result<generate::GenerationResult>& result) {
  std::lock_guard lock(mutex_);
  job_.reset();
  if (std::exchange(over_, true)) return;
  if (result) {
    response_->Note(
        fmt::format("prompt={} cached={} ({}) reply={} end={} prefill={:.2f}s decode={:.2f}s",
                    result->prompt_tokens, result->cached_tokens, result->prefix_note,
                    result->output.size(), generate::FinishReasonName(result->reason),
                    static_cast<double>(result->prefill_nanos) / 1e9,
                    static_cast<double>(result->decode_nanos) / 1e9));
    spacing_.Flush([&](const generate::ReplyEvent& event) { writer_->Event(event); });
    writer_->End(*result);
    return;
  }
  response_->Note(fmt::format("error=\"{}\"", result.error().message));
  writer_->Fail(ToApiError(result.error()));
}

void Exchange::Cancel() {
  std::lock_guard lock(mutex_);
  cancelled_ = true;
  if (!std::exchange(over_, true)) response_->Note("cancelled");
  if (job_) job_->Cancel();
}

void Exchange::Fail(const ApiError& error) {
  std::lock_guard lock(mutex_);
  cancelled_ = true;
  if (job_) job_->Cancel();
  if (std::exchange(over_, true)) return;
  if (error.kind == ApiError::Kind::kTimeout) stats_.CountLate();
  response_->Note(fmt::format("error=\"{}\"", error.message));
  writer_->Fail(error);
}

void Exchange::CountRead() {
  std::lock_guard lock(mutex_);
  read_ = true;
  stats_.CountFirstToken(Clock::now() - accepted_);
}

bool Exchange::Late(Clock::time_point now, Clock::duration limit) {
  std::lock_guard lock(mutex_);
  return !over_ && !read_ && now - accepted_ > limit;
}

void Exchange::KeepAlive(Clock::time_point now, Clock::duration quiet) {
  std::lock_guard lock(mutex_);
  if (over_) return;
  if (const uint64_t written = response_->written(); written != written_) {
    written_ = written;
    last_write_ = now;
  }
  if (now - last_write_ < quiet) return;
  last_write_ = now;
  writer_->KeepAlive();
}

}  // namespace slotstream::server
