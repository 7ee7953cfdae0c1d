#include "cli/run_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <sstream>

#include "cli/user_directories.h"
#include "io/atomic_file.h"
#include "io/file.h"

namespace slotstream::cli {
namespace {

using nlohmann::json;

constexpr size_t kMostBytes = 64 * 1024;
constexpr const char* kBootId = "/proc/sys/kernel/random/boot_id";

std::string ThisBoot() {
  std::string boot = io::ReadWholeFile(kBootId, kMostBytes).value_or("");
  boot.erase(std::remove(boot.begin(), boot.end(), '\n'), boot.end());
  return boot;
}

// When the process began; nothing if there is none, or only its remains that nobody waited for.
std::optional<uint64_t> StartTicks(int pid) {
  const auto stat = io::ReadWholeFile(fmt::format("/proc/{}/stat", pid), kMostBytes);
  if (!stat) return std::nullopt;
  // The second field is a name in brackets that may hold anything; the third is the state and the
  // 22nd the start (proc(5)).
  const size_t name_end = stat->rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(stat->substr(name_end + 1));
  std::string field;
  for (int number = 3; number <= 22; ++number) {
    if (!(fields >> field)) return std::nullopt;
    if (number == 3 && (field == "Z" || field == "X")) return std::nullopt;
  }
  return std::strtoull(field.c_str(), nullptr, 10);
}

std::string ToText(const ServerRecord& record) {
  return json{{"pid", record.pid},         {"start_ticks", record.start_ticks},
              {"boot", record.boot},       {"host", record.host},
              {"port", record.port},       {"directory", record.directory},
              {"started", record.started}, {"grace_seconds", record.grace_seconds}}
             .dump(1, ' ', false, json::error_handler_t::replace) +
         "\n";
}

std::optional<ServerRecord> FromText(const std::string& text) {
  try {
    const json object = json::parse(text);
    ServerRecord record;
    object.at("pid").get_to(record.pid);
    object.at("start_ticks").get_to(record.start_ticks);
    object.at("boot").get_to(record.boot);
    object.at("host").get_to(record.host);
    object.at("port").get_to(record.port);
    object.at("directory").get_to(record.directory);
    object.at("started").get_to(record.started);
    object.at("grace_seconds").get_to(record.grace_seconds);
    if (record.pid > 0) return record;
  } catch (const json::exception&) {
    // Not one of ours, or of another version.
  }
  return std::nullopt;
}

}  // namespace

bool IsAlive(const ServerRecord& record) {
  return StartTicks(record.pid) == record.start_ticks && ThisBoot() == record.boot;
}

Result<RunFile> RunFile::Write(ServerRecord record) {
  SS_ASSIGN_OR_RETURN(const std::string directory, RuntimeDirectory());
  record.pid = getpid();
  record.boot = ThisBoot();
  const std::optional<uint64_t> ticks = StartTicks(record.pid);
  if (!ticks) return Fail(ErrorCode::kIo, "/proc does not tell when this process began");
  record.start_ticks = *ticks;
  std::string path = fmt::format("{}/{}.json", directory, record.pid);
  const std::string text = ToText(record);
  SS_RETURN_IF_ERROR(io::WriteFileAtomically(path, std::as_bytes(std::span(text))));
  return RunFile(std::move(path));
}

RunFile::~RunFile() {
  if (!path_.empty()) unlink(path_.c_str());
}

Result<std::vector<ServerRecord>> RunningServers() {
  SS_ASSIGN_OR_RETURN(const std::string directory, RuntimeDirectory());
  std::vector<ServerRecord> running;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    if (entry.path().extension() != ".json") continue;
    const auto text = io::ReadWholeFile(entry.path(), kMostBytes);
    std::optional<ServerRecord> record;
    if (text) record = FromText(*text);
    if (!record) continue;
    if (IsAlive(*record)) {
      running.push_back(std::move(*record));
    } else {
      unlink(entry.path().c_str());
    }
  }
  std::ranges::sort(running, {}, [](const ServerRecord& r) { return std::pair(r.port, r.pid); });
  return running;
}

}  // namespace slotstream::cli
