#include "engine/engine.h"

#include <chrono>
#include <exception>
#include <utility>

#include "base/clock.h"
#include "generate/constraint.h"
#include "text/tool_schema.h"

namespace slotstream::engine {
namespace {

// While there is nothing to do.
constexpr auto kIdleLook = std::chrono::seconds(1);

bool OpensThinking(const Request& request) {
  if (!request.chat) return request.opens_thinking;
  return request.chat->add_generation_prompt && request.chat->enable_thinking.value_or(true);
}

// Passes events on and makes the message of them that a client will send back.
void RecordReply(ReplyRecorder& recorder, generate::GenerationObserver& observer) {
  observer.on_event = [&recorder,
                       told = std::move(observer.on_event)](const generate::ReplyEvent& event) {
    recorder.Add(event);
    if (told) told(event);
  };
}

}  // namespace

bool Job::WaitForMillis(int millis) {
  std::unique_lock lock(mutex_);
  return done_.wait_for(lock, std::chrono::milliseconds(millis),
                        [this] { return result_.has_value(); });
}

Result<generate::GenerationResult> Job::Wait() {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return result_.has_value(); });
  return *result_;
}

Engine::Engine(std::unique_ptr<LoadedModel> loaded, EngineOptions options)
    : loaded_(std::move(loaded)),
      clock_(*options.clock),
      prefixes_(*loaded_, options.prefix_disk),
      governor_(*loaded_, prefixes_, clock_, std::move(options.system_root),
                std::move(options.log)),
      worker_([this] { WorkerLoop(); }) {}

Engine::~Engine() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    for (const auto& job : queue_) job->Cancel();
    if (running_) running_->Cancel();
  }
  wake_.notify_all();
  worker_.join();
}

std::shared_ptr<Job> Engine::Submit(Request request, RequestObserver observer) {
  auto job = std::make_shared<Job>();
  job->request_ = std::move(request);
  job->observer_ = std::move(observer);
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(job);
  }
  wake_.notify_one();
  return job;
}

Result<EncodedPrompt> Engine::Encode(const Request& request) {
  SS_ASSIGN_OR_RETURN(const text::Tokenizer* tokenizer, loaded_->tokenizer());
  return EncodePrompt(*tokenizer, request, prefixes_.replies());
}

void Engine::WorkerLoop() {
  for (;;) {
    std::shared_ptr<Job> job;
    {
      std::unique_lock lock(mutex_);
      running_.reset();
      const auto awake = [this] { return stop_ || !queue_.empty(); };
      while (!wake_.wait_for(lock, kIdleLook, awake)) {
        lock.unlock();
        governor_.Step();
        lock.lock();
      }
      if (queue_.empty()) return;
      job = std::move(queue_.front());
      queue_.pop_front();
      running_ = job;
    }
    Result<generate::GenerationResult> result = Run(*job);
    if (job->observer_.on_end) job->observer_.on_end(result);
    {
      std::lock_guard lock(job->mutex_);
      job->result_.emplace(std::move(result));
    }
    job->done_.notify_all();
  }
}

Result<generate::GenerationResult> Engine::Run(Job& job) {
  if (job.cancel_.load(std::memory_order_relaxed)) {
    return Fail(ErrorCode::kCancelled, "cancelled before it began");
  }
  try {
    SS_ASSIGN_OR_RETURN(const text::Tokenizer* tokenizer, loaded_->tokenizer());
    const Request& request = job.request_;
    generate::Generation generation;
    EncodedPrompt prompt{request.ids, request.notes};
    if (request.ids.empty()) {
      SS_ASSIGN_OR_RETURN(prompt, EncodePrompt(*tokenizer, request, prefixes_.replies()));
    }
    generation.prompt = std::move(prompt.ids);
    // As early as can be: what is on disk is read during all that follows.
    PrefixReuse::Use use = prefixes_.Begin(generation.prompt, prompt.notes, request);
    SS_ASSIGN_OR_RETURN(const std::vector<uint32_t> start, EncodeReplyStart(*tokenizer, request));
    generation.reply_ids = start.size();
    generation.single_call = request.single_call;
    generation.alternatives = request.alternatives;
    generation.sampling = request.sampling.Sanitized();
    generation.stop_ids = loaded_->generation_config().eos_token_ids;
    generation.max_context = loaded_->plan().max_context;
    text::ToolSchemas tools;
    generation.reply.thinking = OpensThinking(request);
    generation.reply.stop = generation.sampling.stop;
    generation.reply.first_call_id = request.first_call_id;
    if (request.chat && request.chat->tools.is_array() && !request.chat->tools.empty()) {
      tools = text::ToolSchemas::FromTools(request.chat->tools);
      generation.reply.tools = &tools;
    }
    std::optional<generate::ConstraintRun> constraint;
    if (request.constraint != nullptr) {
      if (!vocabulary_) vocabulary_ = std::make_unique<generate::VocabularyIndex>(*tokenizer);
      constraint.emplace(*request.constraint, *vocabulary_, generation.stop_ids,
                         generation.reply.thinking);
      generation.constraint = &*constraint;
    }
    if (job.observer_.on_start) job.observer_.on_start(generation.prompt);

    generate::GenerationObserver observer = job.observer_.generation;
    observer.on_step = [&] {
      prefixes_.Settle(use);
      governor_.Step();
    };
    ReplyRecorder recorder;
    if (prefixes_.enabled()) {
      observer.on_snapshot = [&](state::Snapshot state) { prefixes_.Keep(use, std::move(state)); };
      RecordReply(recorder, observer);
    }
    const auto run = [&] {
      generation.snapshots = use.places;
      generation.arriving = use.arriving();
      return generate::Generate(loaded_->model(), *tokenizer, use.sequence, generation, observer,
                                job.cancel_, clock_);
    };
    auto result = run();
    // Nothing was told to anyone before the first pass was complete.
    while (!result && result.error().code != ErrorCode::kCancelled && prefixes_.FallBack(use)) {
      result = run();
    }
    prefixes_.Settle(use);
    if (!result) return result;
    result->prefix_note = use.note;
    // A reply cut at a stop string is not what the model wrote.
    const bool whole = result->reason != generate::FinishReason::kStopString;
    const auto reply = whole && request.chat ? recorder.Take() : std::nullopt;
    prefixes_.End(std::move(use),
                  {.prompt = generation.prompt,
                   .output = result->output,
                   .reply_ids = generation.reply_ids,
                   .stop_token = result->reason == generate::FinishReason::kStopToken,
                   .reply = reply ? &*reply : nullptr,
                   .tools = request.chat ? &request.chat->tools : nullptr});
    return result;
  } catch (const std::exception& error) {
    // Only memory that could not be had for this request ends here; the next one may fit.
    return Fail(ErrorCode::kResourceLimit, error.what());
  }
}

}  // namespace slotstream::engine
