// GET /v1/models and what OpenAI's clients ask for that isn't here.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <utility>

#include "server/json_fields.h"
#include "server/routes.h"

namespace slotstream::server {
namespace {

// One entry for OpenAI's and Anthropic's clients alike: both forms' names together.
Json Entry(const Service& service, std::string_view id) {
  const ModelFacts facts = service.facts();
  Json entry = {{"id", id},
                {"object", "model"},
                {"created", facts.created},
                {"owned_by", "slotstream"},
                {"type", "model"},
                {"display_name", id},
                {"created_at", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(facts.created))}};
  if (facts.context > 0) {
    entry["context_length"] = facts.context;
    entry["context_window"] = facts.context;
    entry["max_model_len"] = facts.context;
    entry["max_output_tokens"] =
        std::min<size_t>(facts.context, static_cast<size_t>(generate::kMaxTokensCeiling));
  }
  return entry;
}

void SendJson(const std::shared_ptr<ResponseStream>& response, const Json& json) {
  response->Send({.body = Dump(json), .headers = {}});
}

}  // namespace

void AddOpenAiModelRoutes(Router& router, Service& service) {
  router.Add("GET", "/v1/models",
             [&service](const HttpRequest&, const std::shared_ptr<ResponseStream>& response) {
               const std::string name = service.facts().name;
               SendJson(response, {{"object", "list"},
                                   {"data", Json::array({Entry(service, name)})},
                                   {"has_more", false},
                                   {"first_id", name},
                                   {"last_id", name}});
             });
  // Any name is served, so any name has an entry.
  router.Add(
      "GET", "/v1/models/*",
      [&service](const HttpRequest& request, const std::shared_ptr<ResponseStream>& response) {
        SendJson(response, Entry(service, request.path.substr(std::string("/v1/models/").size())));
      });
  router.Add("POST", "/v1/embeddings",
             [](const HttpRequest&, const std::shared_ptr<ResponseStream>& response) {
               response->Send(ErrorResponse(
                   ErrorForm::kOpenAi,
                   InvalidRequest("this model makes no embeddings; use an embedding model")));
             });
}

}  // namespace slotstream::server
