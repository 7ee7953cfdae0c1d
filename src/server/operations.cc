// What operators and tools ask: health, metrics, status, tokens.
#include <unistd.h>

#include <utility>

#include "base/version.h"
#include "server/generating_route.h"
#include "server/json_fields.h"
#include "server/metrics.h"
#include "server/request_body.h"
#include "server/routes.h"

namespace slotstream::server {
namespace {

using Response = std::shared_ptr<ResponseStream>;

double Seconds(uint64_t nanos) { return static_cast<double>(nanos) / 1e9; }

void SendJson(const Response& response, const Json& json) {
  response->Send({.body = Dump(json), .headers = {}});
}

void Health(const Service& service, const Response& response) {
  const bool ready = service.loaded() != nullptr;
  response->Send({.status = ready ? 200 : 503,
                  .body = Dump({{"status", ready ? "ok" : "loading model"}}),
                  .headers = {}});
}

Json Status(Service& service) {
  const ModelFacts facts = service.facts();
  const StatsSnapshot stats = service.stats().snapshot();
  Json status = {{"server", "slotstream"},
                 {"version", kVersion},
                 {"pid", getpid()},
                 {"model", facts.name},
                 {"loaded", service.loaded() != nullptr},
                 {"started_at", facts.created},
                 {"uptime_seconds", service.uptime()},
                 {"context_window", facts.context},
                 {"waiting", service.waiting()},
                 {"running", service.scheduler().running()},
                 {"generations",
                  {{"finished", stats.finished},
                   {"cancelled", stats.cancelled},
                   {"failed", stats.failed},
                   {"refused", stats.refused},
                   {"prompt_tokens", stats.prompt_tokens},
                   {"reply_tokens", stats.reply_tokens},
                   {"prefill_seconds", Seconds(stats.prefill_nanos)},
                   {"decode_seconds", Seconds(stats.decode_nanos)}}},
                 {"experts",
                  {{"hits", stats.experts.hits},
                   {"misses", stats.experts.misses},
                   {"swept", stats.experts.swept},
                   {"evictions", stats.experts.evictions},
                   {"read_bytes", stats.experts.bytes_read},
                   {"wait_seconds", Seconds(stats.experts.wait_nanos)}}}};
  if (const engine::LoadedModel* model = service.loaded()) {
    status["plan"] = {{"slots", model->plan().slots},       {"all_slots", model->plan().all_slots},
                      {"pass", model->plan().pass_rows},    {"threads", model->plan().threads},
                      {"kernels", model->kernels().name},   {"io", model->io_name()},
                      {"total_bytes", model->plan().total}, {"budget_bytes", model->plan().budget}};
  }
  return status;
}

// The names of llama-server, which tools already use.
void Tokenize(const text::Tokenizer& tokenizer, const HttpRequest& request,
              const Response& response) {
  std::optional<std::string> content;
  bool special = true;
  const auto read = [&](const Json& body) {
    Fields fields(body);
    content = fields.String("content");
    if (!content) fields.Refuse("content", "there is no text");
    special = fields.Bool("parse_special").value_or(true);
    return fields.error();
  };
  if (!ReadBody(request, *response, read)) return;
  const auto ids = special ? tokenizer.Encode(*content) : tokenizer.EncodeUntrusted(*content);
  if (!ids) return Refuse(request, *response, ToApiError(ids.error()));
  SendJson(response, {{"tokens", *ids}});
}

void Detokenize(const text::Tokenizer& tokenizer, const HttpRequest& request,
                const Response& response) {
  std::vector<text::TokenId> ids;
  const auto read = [&](const Json& body) -> std::optional<ApiError> {
    Fields fields(body);
    const Json* tokens = fields.List("tokens");
    if (tokens == nullptr) {
      fields.Refuse("tokens", "there are none");
      return fields.error();
    }
    for (const Json& token : *tokens) {
      if (!token.is_number_unsigned() || token.get<uint64_t>() > UINT32_MAX) {
        return InvalidRequest("tokens: holds something that is no token id", "tokens");
      }
      ids.push_back(token.get<text::TokenId>());
    }
    return std::nullopt;
  };
  if (!ReadBody(request, *response, read)) return;
  const auto text = tokenizer.Decode(ids);
  if (!text) return Refuse(request, *response, ToApiError(text.error()));
  SendJson(response, {{"content", *text}});
}

}  // namespace

void AddOperationRoutes(Router& router, Service& service) {
  router.Add("GET", "/", [](const HttpRequest&, const Response& response) {
    // What Ollama says; clients look for it.
    response->Send({.content_type = "text/plain", .body = "Ollama is running", .headers = {}});
  });
  router.Add("GET", "/health", [&service](const HttpRequest&, const Response& response) {
    Health(service, response);
  });
  router.Add("GET", "/metrics", [&service](const HttpRequest&, const Response& response) {
    response->Send({.content_type = "text/plain; version=0.0.4; charset=utf-8",
                    .body = Metrics(service),
                    .headers = {}});
  });
  router.Add("GET", "/slotstream/status", [&service](const HttpRequest&, const Response& response) {
    SendJson(response, Status(service));
  });
  const auto with_tokenizer = [](auto answer) -> Answerer {
    return [answer](Service& s, const HttpRequest& request, const Response& response) {
      if (s.tokenizer() != nullptr) return answer(*s.tokenizer(), request, response);
      Refuse(request, *response, InvalidRequest("this model has no tokenizer.json"));
    };
  };
  AddGeneratingRoute(router, service, "/tokenize", with_tokenizer(Tokenize));
  AddGeneratingRoute(router, service, "/detokenize", with_tokenizer(Detokenize));
}

}  // namespace slotstream::server
