// What the dialects share: the model they speak for, and the way a request of theirs becomes a
// generation.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "server/api_error.h"
#include "server/byte_budget.h"
#include "server/id_source.h"
#include "server/reply_writer.h"
#include "server/response_stream.h"
#include "server/scheduler.h"
#include "server/server_stats.h"
#include "server/work_queue.h"

namespace slotstream::server {

struct ServiceOptions {
  std::string model_name = "qwen3.8-flash-next:4bit";
  Scheduler::Limits schedule;
  uint64_t kept_bytes = 16 << 20;  // of all requests that wait or run, see KeptBytes
  std::function<void(std::string_view line)> log;  // any thread
};

// What clients are told about the model; parts are empty while it loads.
struct ModelFacts {
  std::string name;
  uint64_t file_bytes = 0;
  uint64_t parameters = 0;
  size_t context = 0;       // tokens of prompt and reply together
  size_t memory_bytes = 0;  // planned
  std::string form;         // "packed" or "safetensors"
  int64_t created = 0;      // Unix seconds: when the server began
};

// A request of any dialect, ready for the engine but for its prompt's ids.
struct GenerationCall {
  engine::Request request;
  std::unique_ptr<ReplyWriter> writer;
  std::shared_ptr<ResponseStream> response;
  std::string key;  // whose turn it takes; see FairQueue
};

// Thread-safe.
class Service {
 public:
  explicit Service(ServiceOptions options);

  // The model is there: what waited for it goes on. The engine must live until Drain returned.
  void SetEngine(engine::Engine& engine);
  // Null while the model loads.
  const engine::LoadedModel* loaded() const;
  const engine::PrefixReuse* prefixes() const;  // null while loading, as the next
  const text::Tokenizer* tokenizer() const;     // null while loading
  ModelFacts facts() const;

  // Does `work` on a thread of its own once the model is there; it reads so many bytes. Refuses in
  // the response, in the form of `errors`, when too many wait for the model.
  void RunWhenLoaded(const std::shared_ptr<ResponseStream>& response, ErrorForm errors,
                     std::function<void()> work, size_t bytes = 0);

  // Encodes, checks against the context, and queues. Whatever happens is told to the writer.
  void Generate(GenerationCall call);

  // The number of prompt tokens of a request. Errors: those of the chat template and the tokenizer.
  Result<size_t> CountTokens(engine::Request request) const;

  // The name to answer with: what the request named, or the model's own. Any name is served, and
  // the first time a foreign one comes it is logged.
  std::string ServedName(const std::string& requested);

  // Ends everything: see Scheduler::Drain.
  void Drain(std::chrono::milliseconds grace);

  // Requests that wait for their turn or for the model.
  size_t waiting() const;
  Scheduler& scheduler() { return scheduler_; }
  ServerStats& stats() { return stats_; }
  IdSource& ids() { return ids_; }
  // Seconds since the service began.
  double uptime() const;

 private:
  struct Waiting {
    std::shared_ptr<ResponseStream> response;
    ErrorForm errors = ErrorForm::kOpenAi;
    std::function<void()> work;
    bool large = false;
  };
  Result<engine::EncodedPrompt> Encode(engine::Request& request) const;

  const ServiceOptions options_;
  const int64_t created_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  IdSource ids_;
  ServerStats stats_;
  ByteBudget kept_;           // of requests that wait or run
  mutable std::mutex mutex_;  // for the next five
  engine::Engine* engine_ = nullptr;
  ModelFacts facts_;
  std::vector<Waiting> waiting_for_model_;
  std::set<std::string> foreign_names_;
  bool stopping_ = false;
  Scheduler scheduler_;
  WorkQueue work_;  // last: its threads use all the others
};

}  // namespace slotstream::server
