#include "server/service.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "checkpoint/describe.h"
#include "server/request_memory.h"

namespace slotstream::server {
namespace {

// One long prompt being encoded should not hold up the next request's.
constexpr int kWorkThreads = 2;
// Names of models that clients ask for are few; this bounds what a hostile one can make us keep.
constexpr size_t kMostForeignNames = 100;

constexpr std::string_view kPictureNote = "[a picture was here, but this server cannot show it]";
constexpr std::string_view kVideoNote = "[a video was here, but this server cannot show it]";

// The model has no eyes yet, so it is told what it misses.
void ReplacePictures(text::ChatRequest& chat) {
  for (text::ChatMessage& message : chat.messages) {
    for (text::ContentItem& item : message.content) {
      if (item.kind == text::ContentItem::Kind::kText) continue;
      const bool video = item.kind == text::ContentItem::Kind::kVideo;
      item = {text::ContentItem::Kind::kText, std::string(video ? kVideoNote : kPictureNote)};
    }
  }
}

uint64_t FileBytes(const std::filesystem::path& directory) {
  uint64_t bytes = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    std::error_code ignored;
    if (entry.is_regular_file(ignored)) bytes += entry.file_size(ignored);
  }
  return bytes;
}

const ApiError& Stopping() {
  static const ApiError error{.kind = ApiError::Kind::kUnavailable,
                              .message = "the server is stopping"};
  return error;
}

}  // namespace

Service::Service(ServiceOptions options)
    : options_(std::move(options)),
      created_(std::chrono::duration_cast<std::chrono::seconds>(
                   std::chrono::system_clock::now().time_since_epoch())
                   .count()),
      kept_(options_.kept_bytes),
      scheduler_(options_.schedule),
      work_(kWorkThreads) {
  facts_.name = options_.model_name;
  facts_.created = created_;
}

void Service::SetEngine(engine::Engine& engine) {
  // Facts of files, read once so that a question about them never waits for a disk.
  ModelFacts facts;
  facts.name = options_.model_name;
  facts.created = created_;
  const engine::LoadedModel& model = engine.loaded();
  // Nothing runs yet, so the stores may be asked here: watchers see the empty pool.
  stats_.Keep(model.experts().stats(), model.ngram_stats(), model.experts().Snapshot());
  facts.context = model.plan().max_context;
  facts.memory_bytes = model.plan().total;
  facts.file_bytes = FileBytes(model.checkpoint().directory());
  facts.form = model.checkpoint().form() == checkpoint::Form::kPacked ? "packed" : "safetensors";
  if (const auto description = checkpoint::Describe(model.checkpoint().directory())) {
    for (const auto& part : description->parts) facts.parameters += part.parameters;
  }
  std::vector<Waiting> waiting;
  {
    std::lock_guard lock(mutex_);
    engine_ = &engine;
    facts_ = std::move(facts);
    waiting.swap(waiting_for_model_);
  }
  scheduler_.Start(engine);
  for (Waiting& one : waiting) {
    work_.Run(
        [one = std::move(one)] {
          if (!one.response->gone()) one.work();
        },
        one.large);
  }
}

const engine::LoadedModel* Service::loaded() const {
  std::lock_guard lock(mutex_);
  return engine_ == nullptr ? nullptr : &engine_->loaded();
}

const engine::PrefixReuse* Service::prefixes() const {
  std::lock_guard lock(mutex_);
  return engine_ == nullptr ? nullptr : &engine_->prefixes();
}

const text::Tokenizer* Service::tokenizer() const {
  const engine::LoadedModel* model = loaded();
  return model == nullptr ? nullptr : model->tokenizer().value_or(nullptr);
}

ModelFacts Service::facts() const {
  std::lock_guard lock(mutex_);
  return facts_;
}

void Service::RunWhenLoaded(const std::shared_ptr<ResponseStream>& response, ErrorForm errors,
                            std::function<void()> work, size_t bytes) {
  const bool large = bytes > kLargeBody;
  ApiError refusal;
  {
    std::lock_guard lock(mutex_);
    if (engine_ != nullptr && !stopping_) {
      work_.Run(
          [response, work = std::move(work)] {
            if (!response->gone()) work();
          },
          large);
      return;
    }
    if (!stopping_ && waiting_for_model_.size() < options_.schedule.waiting) {
      waiting_for_model_.push_back({response, errors, std::move(work), large});
      return;
    }
    refusal = stopping_ ? Stopping()
                        : ApiError{.kind = ApiError::Kind::kOverloaded,
                                   .message = "the model is loading and many requests wait for it"};
  }
  if (refusal.kind == ApiError::Kind::kOverloaded) stats_.CountRefused();
  response->Send(ErrorResponse(errors, refusal));
}

Result<engine::EncodedPrompt> Service::Encode(engine::Request& request) const {
  engine::Engine* engine = nullptr;
  {
    std::lock_guard lock(mutex_);
    engine = engine_;
  }
  if (engine == nullptr || !engine->loaded().tokenizer()) {
    return Fail(ErrorCode::kUnsupported, "this model has no tokenizer.json, so it takes no text");
  }
  if (request.chat) {
    ReplacePictures(*request.chat);
    request.chat->any_order = true;
  }
  return engine->Encode(request);
}

Result<size_t> Service::CountTokens(engine::Request request) const {
  SS_ASSIGN_OR_RETURN(const engine::EncodedPrompt prompt, Encode(request));
  return prompt.ids.size();
}

void Service::Generate(GenerationCall call) {
  auto prompt = Encode(call.request);
  if (!prompt) {
    call.writer->Fail(ToApiError(prompt.error()));
    return;
  }
  const size_t context = loaded()->plan().max_context;
  const size_t tokens = prompt->ids.size();
  if (tokens == 0) {
    call.writer->Fail(InvalidRequest("the prompt is empty"));
    return;
  }
  if (tokens >= context) {
    call.writer->Fail(ContextTooLong(tokens, context));
    return;
  }
  for (const generate::TokenBias& bias : call.request.sampling.logit_bias) {
    if (bias.id < tokenizer()->vocab_size()) continue;
    call.writer->Fail(
        InvalidRequest(fmt::format("logit_bias: {} is no token id", bias.id), "logit_bias"));
    return;
  }
  call.request.ids = std::move(prompt->ids);
  call.request.notes = std::move(prompt->notes);
  // While it waits its ids are enough; the texts of all that wait would be far larger.
  call.request.text.reset();
  if (call.request.chat) call.request.chat->messages = {};
  call.request.first_call_id = static_cast<uint32_t>(ids_.Number());
  if (!call.request.sampling.seed) call.request.sampling.seed = ids_.Number();
  const uint64_t kept = KeptBytes(call.request);
  if (kept > options_.kept_bytes) {
    call.writer->Fail(
        {.kind = ApiError::Kind::kTooLarge,
         .message = fmt::format("the request's tools, schema and tokens take {} bytes "
                                "of memory, the most is {}",
                                kept, options_.kept_bytes)});
    return;
  }
  std::shared_ptr<void> memory = kept_.Take(kept);
  if (memory == nullptr) {
    stats_.CountRefused();
    call.writer->Fail({.kind = ApiError::Kind::kOverloaded,
                       .message = "too many requests with large tools or schemas are waiting"});
    return;
  }
  const PromptCount prompt_count{tokens, prefixes()->Peek(call.request.ids)};
  auto exchange =
      std::make_shared<Exchange>(std::move(call.request), prompt_count, std::move(call.writer),
                                 call.response, std::move(call.key), stats_, std::move(memory));
  if (!scheduler_.Submit(exchange)) {
    if (scheduler_.stopping()) return exchange->Fail(Stopping());
    stats_.CountRefused();
    exchange->Fail({.kind = ApiError::Kind::kOverloaded,
                    .message = "too many requests are waiting for the model"});
    return;
  }
  // Last, so that a client that left already cancels what is queued now.
  call.response->OnGone([this, exchange] { scheduler_.Cancel(exchange); });
}

std::string Service::ServedName(const std::string& requested) {
  if (requested.empty() || requested == options_.model_name) return options_.model_name;
  bool fresh = false;
  {
    std::lock_guard lock(mutex_);
    if (foreign_names_.size() < kMostForeignNames) fresh = foreign_names_.insert(requested).second;
  }
  if (fresh && options_.log) {
    options_.log(fmt::format("a client asked for the model {:?}; {} answers", requested,
                             options_.model_name));
  }
  return requested;
}

void Service::Drain(std::chrono::milliseconds grace) {
  std::vector<Waiting> waiting;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    waiting.swap(waiting_for_model_);
  }
  for (const Waiting& one : waiting) one.response->Send(ErrorResponse(one.errors, Stopping()));
  scheduler_.Drain(grace, Stopping());
}

size_t Service::waiting() const {
  std::lock_guard lock(mutex_);
  return waiting_for_model_.size() + scheduler_.waiting();
}

double Service::uptime() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
}

}  // namespace slotstream::server
