// What Ollama's clients ask about models: tags, ps, show, version, and what isn't here.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <span>
#include <utility>

#include "base/version.h"
#include "checkpoint/sha256.h"
#include "server/generating_route.h"
#include "server/json_fields.h"
#include "server/ollama_reply.h"
#include "server/request_body.h"
#include "server/routes.h"

namespace slotstream::server {
namespace {

// The version of Ollama whose interface this is. Codex refuses to talk to one before 0.13.4.
constexpr std::string_view kOllamaVersion = "0.13.5";

void SendJson(const std::shared_ptr<ResponseStream>& response, const Json& json) {
  response->Send({.body = Dump(json), .headers = {}});
}

// All weights that matter lie in panels of 4-bit values, which is the one form this program has.
constexpr std::string_view kQuantization = "4bit";

// "176.0B", "3.1M": as Ollama writes it. Empty while it is not known.
std::string ParameterSize(uint64_t parameters) {
  const auto count = static_cast<double>(parameters);
  if (parameters == 0) return "";
  if (count >= 1e9) return fmt::format("{:.1f}B", count / 1e9);
  if (count >= 1e6) return fmt::format("{:.1f}M", count / 1e6);
  return fmt::format("{:.1f}K", count / 1e3);
}

Json Details(const ModelFacts& facts) {
  return {{"parent_model", ""},
          {"format", facts.form},
          {"family", "qwen4_exp"},
          {"families", Json::array({"qwen4_exp"})},
          {"parameter_size", ParameterSize(facts.parameters)},
          {"quantization_level", kQuantization}};
}

Json Card(const ModelFacts& facts) {
  const auto digest = checkpoint::Sha256Hex(std::as_bytes(std::span(facts.name)));
  return {{"name", facts.name},
          {"model", facts.name},
          {"modified_at", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(facts.created))},
          {"size", facts.file_bytes},
          {"digest", digest.value_or("")},
          {"details", Details(facts)}};
}

void Tags(Service& service, const std::shared_ptr<ResponseStream>& response) {
  SendJson(response, {{"models", Json::array({Card(service.facts())})}});
}

void Running(Service& service, const std::shared_ptr<ResponseStream>& response) {
  Json models = Json::array();
  if (service.loaded() != nullptr) {
    const ModelFacts facts = service.facts();
    Json card = Card(facts);
    card["size"] = facts.memory_bytes;
    card["size_vram"] = 0;
    card["context_length"] = facts.context;
    // It stays as long as the server does.
    card["expires_at"] = "9999-12-31T23:59:59Z";
    models.push_back(std::move(card));
  }
  SendJson(response, {{"models", std::move(models)}});
}

void Show(Service& service, const std::shared_ptr<ResponseStream>& response) {
  const ModelFacts facts = service.facts();
  Json info = {{"general.architecture", "qwen4_exp"}, {"general.basename", facts.name}};
  if (const engine::LoadedModel* model = service.loaded()) {
    const checkpoint::ModelConfig& config = model->config();
    info["general.parameter_count"] = facts.parameters;
    info["qwen4_exp.context_length"] = facts.context;
    info["qwen4_exp.embedding_length"] = config.hidden_size;
    info["qwen4_exp.block_count"] = config.num_layers();
    info["qwen4_exp.expert_count"] = config.num_experts;
    info["qwen4_exp.expert_used_count"] = config.experts_per_token;
    info["qwen4_exp.vocab_size"] = config.vocab_size;
  }
  SendJson(response,
           {{"modelfile", fmt::format("# served by slotstream\nFROM {}\n", facts.name)},
            {"parameters", fmt::format("num_ctx {}", facts.context)},
            {"template", "{{ .Prompt }}"},
            {"details", Details(facts)},
            {"model_info", std::move(info)},
            {"capabilities", Json::array({"completion", "tools", "thinking", "insert"})},
            {"modified_at", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(facts.created))}});
}

// Bytes. It is read on the thread of all connections.
constexpr size_t kLongestPull = 64 << 10;

void Pull(Service& service, const HttpRequest& request,
          const std::shared_ptr<ResponseStream>& response) {
  std::string model;
  const auto read = [&](const Json& body) {
    Fields fields(body);
    model = fields.String("model").value_or(fields.String("name").value_or(""));
    return std::optional<ApiError>();
  };
  if (request.body.size() > kLongestPull) {
    return Refuse(request, *response,
                  {.kind = ApiError::Kind::kTooLarge,
                   .message = fmt::format("the request is longer than {} bytes", kLongestPull)});
  }
  if (!ReadBody(request, *response, read)) return;
  if (model != service.facts().name) {
    return Refuse(
        request, *response,
        {.kind = ApiError::Kind::kNotFound,
         .message = fmt::format("model {:?} is not here, and this server fetches none", model)});
  }
  response->Send({.content_type = "application/x-ndjson",
                  .body = Dump({{"status", "success"}}) + "\n",
                  .headers = {}});
}

}  // namespace

void AddOllamaModelRoutes(Router& router, Service& service) {
  using Response = std::shared_ptr<ResponseStream>;
  router.Add("GET", "/api/tags",
             [&service](const HttpRequest&, const Response& response) { Tags(service, response); });
  router.Add("GET", "/api/ps", [&service](const HttpRequest&, const Response& response) {
    Running(service, response);
  });
  router.Add("POST", "/api/show",
             [&service](const HttpRequest&, const Response& response) { Show(service, response); });
  router.Add("GET", "/api/version", [](const HttpRequest&, const Response& response) {
    SendJson(response, {{"version", kOllamaVersion}, {"slotstream", kVersion}});
  });
  AddGeneratingRoute(router, service, "/api/pull", Pull);
  for (const char* path : {"/api/embed", "/api/embeddings"}) {
    router.Add("POST", path, [](const HttpRequest&, const Response& response) {
      response->Send(
          ErrorResponse(ErrorForm::kOllama,
                        InvalidRequest("this model makes no embeddings; use an embedding model")));
    });
  }
  const auto unsupported = [](const HttpRequest& request, const Response& response) {
    response->Send(ErrorResponse(
        ErrorForm::kOllama,
        {.kind = ApiError::Kind::kUnsupported,
         .message =
             fmt::format("{}: this server has one model and does not change it", request.path)}));
  };
  for (const char* path : {"/api/create", "/api/push", "/api/copy"}) {
    router.Add("POST", path, unsupported);
  }
  router.Add("DELETE", "/api/delete", unsupported);
}

}  // namespace slotstream::server
