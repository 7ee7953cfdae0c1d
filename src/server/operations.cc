// What operators and tools ask: health, metrics, status, tokens.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/version.h"
#include "server/generating_route.h"
#include "server/json_fields.h"
#include "server/metrics.h"
#include "server/prefix_report.h"
#include "server/request_body.h"
#include "server/routes.h"

namespace slotstream::server {
namespace {

using Response = std::shared_ptr<ResponseStream>;

// Bytes of text for /tokenize, and from /detokenize: several times the longest context. As tokens
// in JSON it takes twenty times as much.
constexpr size_t kLongestText = 1024 * 1024;

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

// Four experts a digit; the first expert is the first digit's highest bit.
std::string HexBits(std::span<const uint8_t> bits) {
  std::string hex((bits.size() + 3) / 4, '0');
  for (size_t digit = 0; digit < hex.size(); ++digit) {
    unsigned value = 0;
    for (size_t i = 4 * digit; i < 4 * digit + 4; ++i) {
      value = 2 * value + (i < bits.size() ? bits[i] : 0);
    }
    hex[digit] = "0123456789abcdef"[value];
  }
  return hex;
}

Json PoolJson(const experts::PoolSnapshot& pool) {
  Json layers = Json::array();
  std::span<const uint8_t> resident(pool.resident);
  for (const experts::LayerCounts& counts : pool.layers) {
    const auto bits = resident.first(pool.experts_per_layer);
    resident = resident.subspan(pool.experts_per_layer);
    layers.push_back({{"held", std::ranges::count(bits, 1)},
                      {"hits", counts.hits},
                      {"misses", counts.misses},
                      {"swept", counts.swept},
                      {"resident", HexBits(bits)}});
  }
  return {{"slots", pool.slots},
          {"held", pool.held},
          {"experts_per_layer", pool.experts_per_layer},
          {"layers", std::move(layers)}};
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
                   {"cached_tokens", stats.cached_tokens},
                   {"reply_tokens", stats.reply_tokens},
                   {"prefill_seconds", Seconds(stats.prefill_nanos)},
                   {"decode_seconds", Seconds(stats.decode_nanos)}}},
                 {"prefill", {{"done", stats.prefill_done}, {"total", stats.prefill_total}}},
                 {"experts",
                  {{"hits", stats.experts.hits},
                   {"misses", stats.experts.misses},
                   {"swept", stats.experts.swept},
                   {"evictions", stats.experts.evictions},
                   {"read_bytes", stats.experts.bytes_read},
                   {"read_seconds", Seconds(stats.experts.read_nanos)},
                   {"wait_seconds", Seconds(stats.experts.wait_nanos)}}},
                 {"ngrams",
                  {{"hits", stats.ngrams.hits},
                   {"misses", stats.ngrams.misses},
                   {"read_bytes", stats.ngrams.bytes_read},
                   {"wait_seconds", Seconds(stats.ngrams.wait_nanos)}}}};
  if (const engine::PrefixReuse* prefixes = service.prefixes()) {
    status["prefix_cache"] = PrefixStatus(*prefixes);
  }
  if (const engine::LoadedModel* model = service.loaded()) {
    status["plan"] = {{"slots", model->plan().slots},       {"all_slots", model->plan().all_slots},
                      {"pass", model->plan().pass_rows},    {"threads", model->plan().threads},
                      {"kernels", model->kernels().name},   {"io", model->io_name()},
                      {"total_bytes", model->plan().total}, {"budget_bytes", model->plan().budget}};
    Json& ledger = status["plan"]["ledger_bytes"];
    for (const plan::LedgerLine& line : model->plan().ledger) ledger[line.name] = line.bytes;
    status["pool"] = PoolJson(service.stats().pool());
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
    if (content && content->size() > kLongestText) {
      fields.Refuse("content", fmt::format("longer than {} bytes", kLongestText));
    }
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
  size_t length = 0;
  for (text::TokenId id : ids) length += tokenizer.TokenBytes(id).value_or("").size();
  if (length > kLongestText) {
    return Refuse(
        request, *response,
        InvalidRequest(fmt::format("tokens: their text is longer than {} bytes", kLongestText),
                       "tokens"));
  }
  const auto text = tokenizer.Decode(ids);
  if (!text) return Refuse(request, *response, ToApiError(text.error()));
  SendJson(response, {{"content", *text}});
}

}  // namespace

void AddOperationRoutes(Router& router, Service& service) {
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
