// `slotstream ps`: the servers of this user.

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/local_http.h"
#include "cli/run_file.h"
#include "cli/server_probe.h"

namespace slotstream::cli {
namespace {

using nlohmann::ordered_json;

struct Line {
  ServerRecord record;
  std::string state;
  ServerState facts;
};

Line Examine(ServerRecord record) {
  Line line;
  const auto state = ProbeServer(record.host, record.port);
  if (!state) {
    line.state = state.error().code == ErrorCode::kInvalidArgument ? "locked" : "silent";
  } else if (!*state || (*state)->pid != record.pid) {
    line.state = "stopping";  // the process lives, but its port is closed
  } else {
    line.facts = **state;
    line.state = !line.facts.loaded ? "loading" : line.facts.running > 0 ? "busy" : "ready";
  }
  line.record = std::move(record);
  return line;
}

void PrintTable(const std::vector<Line>& lines) {
  size_t address = 7, model = 5;
  for (const Line& line : lines) {
    address = std::max(address, LocalAddress(line.record.host, line.record.port).size());
    model = std::max(model, line.facts.model.size());
  }
  fmt::print("{:>8}  {:<{}}  {:<8}  {:>7}  {:>7}  {:>8}  {:<{}}  {}\n", "PID", "ADDRESS", address,
             "STATE", "RUNNING", "WAITING", "ANSWERED", "MODEL", model, "DIRECTORY");
  for (const Line& line : lines) {
    fmt::print("{:>8}  {:<{}}  {:<8}  {:>7}  {:>7}  {:>8}  {:<{}}  {}\n", line.record.pid,
               LocalAddress(line.record.host, line.record.port), address, line.state,
               line.facts.running, line.facts.waiting, line.facts.answered, line.facts.model, model,
               line.record.directory);
  }
}

void PrintJson(const std::vector<Line>& lines) {
  ordered_json list = ordered_json::array();
  for (const Line& line : lines) {
    list.push_back({{"pid", line.record.pid},
                    {"address", LocalAddress(line.record.host, line.record.port)},
                    {"host", line.record.host},
                    {"port", line.record.port},
                    {"state", line.state},
                    {"running", line.facts.running},
                    {"waiting", line.facts.waiting},
                    {"answered", line.facts.answered},
                    {"model", line.facts.model},
                    {"context", line.facts.context},
                    {"directory", line.record.directory},
                    {"started_at", line.record.started}});
  }
  fmt::print("{}\n", list.dump(1, ' ', false, ordered_json::error_handler_t::replace));
}

Result<int> ListServers(bool as_json) {
  SS_ASSIGN_OR_RETURN(std::vector<ServerRecord> records, RunningServers());
  std::vector<Line> lines;
  for (ServerRecord& record : records) lines.push_back(Examine(std::move(record)));
  if (as_json) {
    PrintJson(lines);
  } else {
    PrintTable(lines);
  }
  return 0;
}

}  // namespace

void AddPsCommand(CLI::App& app, Action& action) {
  auto as_json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("ps", "List the servers of this user");
  command->add_flag("--json", *as_json, "As a list of JSON objects");
  command->callback([as_json, &action] { action = [as_json] { return ListServers(*as_json); }; });
}

}  // namespace slotstream::cli
