// `slotstream serve`: the HTTP server.

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/model_options.h"
#include "cli/prefix_cache_options.h"
#include "cli/run_file.h"
#include "engine/engine.h"
#include "io/backend.h"
#include "plan/machine.h"
#include "plan/plan.h"
#include "server/request_memory.h"
#include "server/server.h"

namespace slotstream::cli {
namespace {

// Beside connections: the model's files and rings.
constexpr rlim_t kOtherDescriptors = 256;
// Bytes. Few are as large, so that what a mapping costs is little.
constexpr int kLargeAllocation = 256 << 10;

struct ServeOptions {
  ModelOptions model;
  PrefixCacheOptions prefix_cache;
  std::string host = "127.0.0.1";
  uint16_t port = 11434;
  std::string api_key;
  bool no_auth = false;
  std::vector<std::string> origins;
  std::string name;
  size_t queue = 64;
  size_t connections = 1024;
  double ping_seconds = 10;
  double first_token_seconds = 1800;
  int grace_seconds = 10;
  bool quiet = false;
};

// A line on stderr with the time in UTC. Whole lines, whichever thread writes.
void LogLine(std::string_view line) {
  fmt::print(stderr, "{:%Y-%m-%dT%H:%M:%SZ} {}\n", fmt::gmtime(std::time(nullptr)), line);
}

Result<server::ServerOptions> ToServerOptions(const ServeOptions& options) {
  if (!server::IsLoopbackHost(options.host) && options.api_key.empty() && !options.no_auth) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("--host {} lets other machines in: give an --api-key, or --no-auth to "
                            "serve everyone",
                            options.host));
  }
  server::ServerOptions result;
  result.http.host = options.host;
  result.http.port = options.port;
  result.http.limits.connections = options.connections;
  result.access.api_key = options.api_key;
  result.access.allowed_origins = options.origins;
  if (!options.name.empty()) result.service.model_name = options.name;
  result.service.schedule.waiting = options.queue;
  result.service.schedule.keep_alive =
      std::chrono::milliseconds(std::llround(options.ping_seconds * 1000));
  result.service.schedule.first_token =
      std::chrono::milliseconds(std::llround(options.first_token_seconds * 1000));
  if (!options.quiet) result.service.log = LogLine;
  return result;
}

// Most systems allow a process 1024 files at first and far more when it asks.
void AllowDescriptors(size_t connections) {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = connections + kOtherDescriptors;
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  setrlimit(RLIMIT_NOFILE, &limit);
}

Result<RunFile> WriteRunFile(const ServeOptions& options, uint16_t port) {
  std::error_code ignored;
  return RunFile::Write(
      {.host = options.host,
       .port = port,
       .directory = std::filesystem::absolute(options.model.directory, ignored).string(),
       .started = std::time(nullptr),
       .grace_seconds = options.grace_seconds});
}

Result<int> Serve(const ServeOptions& options, const CLI::App& command) {
  SS_ASSIGN_OR_RETURN(server::ServerOptions server_options, ToServerOptions(options));
  SS_ASSIGN_OR_RETURN(engine::LoadOptions load, ToLoadOptions(options.model, command));
  const uint64_t memory =
      load.wishes.memory_bytes.value_or(plan::DefaultBudget(plan::ReadMachineFacts()));
  server::LimitRequests(memory, server_options);
  load.wishes.request_bytes = server::MostRequestBytes(server_options);
  // Texts of requests go back to the system at once, instead of into holes among what stays.
  mallopt(M_MMAP_THRESHOLD, kLargeAllocation);
  AllowDescriptors(options.connections);
  InterruptScope interrupt;
  SS_ASSIGN_OR_RETURN(std::unique_ptr<server::Server> server,
                      server::Server::Create(server_options));
  fmt::print(stderr, "listening on http://{}:{}\n", options.host, server->port());
  const Result<RunFile> run_file = WriteRunFile(options, server->port());
  if (!run_file) {
    fmt::print(stderr, "note: `ps` and `stop` will not find this server: {}\n",
               run_file.error().message);
  }
  load.cancel = &interrupt.flag();
  engine::EngineOptions engine_options{.log = LogLine};
  SS_RETURN_IF_ERROR(
      ApplyPrefixCache(options.prefix_cache, command, load.wishes, engine_options.prefix_disk));
  if (load.io != io::BackendKind::kAuto) {
    engine_options.prefix_disk.make_backend = [kind = load.io](size_t depth) {
      return io::MakeBackend(kind, depth, nullptr);
    };
  }
  Result<std::unique_ptr<engine::LoadedModel>> loaded = LoadModel(load);
  if (!loaded) {
    // What waits for the model gets an answer.
    server->Stop(std::chrono::seconds(0));
    if (loaded.error().code != ErrorCode::kCancelled) return std::unexpected(loaded.error());
    fmt::print(stderr, "stopped while the model was loaded\n");
    return 0;
  }
  engine::Engine engine(std::move(*loaded), std::move(engine_options));
  if (const std::string& problem = engine.prefixes().disk_problem(); !problem.empty()) {
    fmt::print(stderr, "note: no prefix cache on disk: {}\n", problem);
  }
  server->SetEngine(engine);
  fmt::print(stderr, "ready\n");
  while (!interrupt.interrupted()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  fmt::print(stderr, "stopping\n");
  server->Stop(std::chrono::seconds(options.grace_seconds));
  server.reset();
  return 0;
}

}  // namespace

void AddServeCommand(CLI::App& app, Action& action) {
  auto options = std::make_shared<ServeOptions>();
  CLI::App* command =
      app.add_subcommand("serve", "Serve Ollama's, OpenAI's and Anthropic's HTTP interfaces");
  AddModelOptions(*command, options->model);
  AddPrefixCacheOptions(*command, options->prefix_cache);
  command->add_option("--host", options->host, "Address to listen on")->capture_default_str();
  command->add_option("--port", options->port, "Port to listen on; 0: any free one")
      ->capture_default_str();
  command
      ->add_option("--api-key", options->api_key,
                   "Key that clients must send; needed where other machines get in")
      ->envname("SLOTSTREAM_API_KEY")
      ->type_name("KEY");
  command->add_flag("--no-auth", options->no_auth, "Let other machines in without a key");
  command
      ->add_option("--allow-origin", options->origins,
                   "Web origin whose pages may ask, * for all; may be repeated")
      ->type_name("ORIGIN");
  command->add_option("--name", options->name,
                      "Name of the model for clients (default: qwen3.8-flash-next:4bit)");
  command->add_option("--queue", options->queue, "Requests that may wait for their turn")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--max-connections", options->connections, "Connections at once")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_option("--ping-seconds", options->ping_seconds,
                   "Silence after which a waiting client is told that the answer will come")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_option("--first-token-seconds", options->first_token_seconds,
                   "Longest time from a request to the first token of its answer; 0: no limit")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command
      ->add_option("--grace-seconds", options->grace_seconds,
                   "On SIGTERM, time that a running answer has to end")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_flag("--quiet", options->quiet, "No access log");
  command->callback([options, command, &action] {
    action = [options, command] { return Serve(*options, *command); };
  });
}

}  // namespace slotstream::cli
