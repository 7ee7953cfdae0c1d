#include "cli/agents.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace slotstream::cli {
namespace {

using nlohmann::ordered_json;

// Reading a long prompt takes minutes where experts come from a disk; agents wait for 5 minutes
// unless they are told to be patient. As long as the server's own limit to the first token.
constexpr std::string_view kPatienceMillis = "1800000";
// For clients that insist on a key where the server wants none.
constexpr std::string_view kAnyKey = "slotstream";
// What a reply may have of a context: agents compact when the prompt leaves less.
constexpr size_t kMostReply = 8192;

std::string KeyOf(const AgentServer& server) {
  return server.key.empty() ? std::string(kAnyKey) : server.key;
}

size_t ReplyTokens(size_t context) { return std::min(context / 4, kMostReply); }

// A string of TOML: JSON's escapes are among its own.
std::string Quoted(std::string_view text) { return ordered_json(text).dump(); }

AgentCommand Claude(const AgentServer& server) {
  AgentCommand command;
  command.set = {{"ANTHROPIC_BASE_URL", server.url},
                 {"ANTHROPIC_AUTH_TOKEN", KeyOf(server)},
                 {"ANTHROPIC_MODEL", server.model},
                 {"ANTHROPIC_DEFAULT_OPUS_MODEL", server.model},
                 {"ANTHROPIC_DEFAULT_SONNET_MODEL", server.model},
                 {"ANTHROPIC_DEFAULT_HAIKU_MODEL", server.model},
                 {"CLAUDE_CODE_SUBAGENT_MODEL", server.model}};
  // Its first line would differ with every conversation; thinking and telemetry cost time.
  command.defaults = {{"CLAUDE_CODE_ATTRIBUTION_HEADER", "0"},
                      {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"},
                      {"MAX_THINKING_TOKENS", "0"},
                      {"API_TIMEOUT_MS", std::string(kPatienceMillis)},
                      {"API_FORCE_IDLE_TIMEOUT", "0"},
                      {"CLAUDE_STREAM_IDLE_TIMEOUT_MS", std::string(kPatienceMillis)}};
  if (server.context > 0) {
    const std::string context = std::to_string(server.context);
    command.defaults.push_back({"CLAUDE_CODE_MAX_CONTEXT_TOKENS", context});
    command.defaults.push_back({"CLAUDE_CODE_AUTO_COMPACT_WINDOW", context});
    command.defaults.push_back(
        {"CLAUDE_CODE_MAX_OUTPUT_TOKENS", std::to_string(ReplyTokens(server.context))});
  }
  // A key beside the token, or a cloud's switch, would win.
  command.unset = {"ANTHROPIC_API_KEY", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX",
                   "CLAUDE_CODE_USE_FOUNDRY"};
  // Variables in the user's own settings file stand above the environment, and these above them.
  // The token is left out: everyone may read a command line.
  ordered_json settings;
  for (const auto& [name, value] : command.set) {
    if (name != "ANTHROPIC_AUTH_TOKEN") settings["env"][name] = value;
  }
  command.arguments = {"claude", "--settings", settings.dump()};
  return command;
}

AgentCommand Codex(const AgentServer& server) {
  AgentCommand command;
  std::string provider = fmt::format(
      "{{name=\"slotstream\",base_url={},wire_api=\"responses\",stream_idle_timeout_ms={}",
      Quoted(server.url + "/v1"), kPatienceMillis);
  if (!server.key.empty()) {
    provider += ",env_key=\"SLOTSTREAM_API_KEY\"";
    command.set.push_back({"SLOTSTREAM_API_KEY", server.key});
  }
  command.arguments = {"codex", "-c", "model_provider=\"slotstream\"", "-c",
                       "model_providers.slotstream=" + provider + "}", "-c",
                       "model=" + Quoted(server.model),
                       // Runs on OpenAI's servers only.
                       "-c", "web_search=\"disabled\""};
  if (server.context > 0) {
    command.arguments.push_back("-c");
    command.arguments.push_back(fmt::format("model_context_window={}", server.context));
  }
  return command;
}

AgentCommand OpenCode(const AgentServer& server) {
  ordered_json model = {{"name", server.model}, {"tool_call", true}, {"reasoning", true}};
  if (server.context > 0) {
    // It compacts when the prompt passes context less output, and for ever if that is too little.
    model["limit"] = {{"context", server.context}, {"output", ReplyTokens(server.context)}};
  }
  const std::string id = "slotstream/" + server.model;
  const ordered_json ours = {
      {"provider",
       {{"slotstream",
         {{"npm", "@ai-sdk/openai-compatible"},
          {"name", "slotstream"},
          {"options",
           {{"baseURL", server.url + "/v1"}, {"apiKey", KeyOf(server)}, {"timeout", false}}},
          {"models", {{server.model, model}}}}}}},
      {"model", id},
      {"small_model", id}};
  // What the user has there stays, but for these.
  ordered_json config = ordered_json::object();
  if (const char* theirs = std::getenv("OPENCODE_CONFIG_CONTENT")) {
    config = ordered_json::parse(theirs, nullptr, false);
    if (!config.is_object()) config = ordered_json::object();
  }
  config.merge_patch(ours);
  AgentCommand command;
  command.set = {{"OPENCODE_CONFIG_CONTENT", config.dump()}};
  command.arguments = {"opencode"};
  return command;
}

constexpr std::array<Agent, 3> kAgents = {{
    {"claude", "npm install -g @anthropic-ai/claude-code", 32768, Claude},
    {"codex", "npm install -g @openai/codex", 32768, Codex},
    {"opencode", "npm install -g opencode-ai", 16384, OpenCode},
}};

}  // namespace

std::span<const Agent> Agents() { return kAgents; }

}  // namespace slotstream::cli
