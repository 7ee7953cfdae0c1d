// `slotstream stop`: ends a server of this user and waits until it is gone.

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/local_http.h"
#include "cli/run_file.h"
#include "cli/server_probe.h"
#include "io/owned_fd.h"
#include "io/system_error.h"

namespace slotstream::cli {
namespace {

// Beyond its grace a server ends with the next layer; on a slow disk that takes seconds.
constexpr int kExtraSeconds = 30;
constexpr int kMostGraceSeconds = 24 * 60 * 60;

// Not glibc's functions of these names: its header lacks extern "C" before 2.37.
int OpenProcess(int pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }
int Signal(const io::OwnedFd& process, int signal) {
  return static_cast<int>(syscall(SYS_pidfd_send_signal, process.get(), signal, nullptr, 0));
}

std::string Describe(const ServerRecord& record) {
  return fmt::format("{} (pid {})", LocalAddress(record.host, record.port), record.pid);
}

Result<ServerRecord> Choose(const std::optional<uint16_t>& port) {
  SS_ASSIGN_OR_RETURN(const std::vector<ServerRecord> running, RunningServers());
  std::vector<ServerRecord> chosen;
  for (const ServerRecord& record : running) {
    if (!port || record.port == *port) chosen.push_back(record);
  }
  if (chosen.size() == 1) return chosen.front();
  if (chosen.empty() && !port) return Fail(ErrorCode::kNotFound, "no server of this user runs");
  if (chosen.empty()) {
    const auto probe = ProbeServer("127.0.0.1", *port);
    return Fail(ErrorCode::kNotFound,
                fmt::format("no server of this user has port {}{}", *port,
                            probe && !*probe ? "" : "; something else listens there"));
  }
  std::string list;
  for (const ServerRecord& record : chosen) list += "\n  " + Describe(record);
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("several servers run; say which with --port:{}", list));
}

Result<int> Stop(const std::optional<uint16_t>& port) {
  SS_ASSIGN_OR_RETURN(const ServerRecord record, Choose(port));
  const auto gone = [&record] {
    fmt::print("{} had ended already\n", Describe(record));
    return 0;
  };
  // A descriptor names the process for good; looked at after it was opened, the record says whether
  // it is the right one.
  const io::OwnedFd process(OpenProcess(record.pid));
  if (!process.valid() && errno == ESRCH) return gone();
  if (!process.valid()) {
    return std::unexpected(io::SystemError(errno, "watch", fmt::format("process {}", record.pid)));
  }
  if (!IsAlive(record)) return gone();
  const auto start = std::chrono::steady_clock::now();
  if (Signal(process, SIGTERM) != 0) {
    if (errno == ESRCH) return gone();
    return std::unexpected(io::SystemError(errno, "stop", fmt::format("process {}", record.pid)));
  }
  const int limit = std::clamp(record.grace_seconds, 0, kMostGraceSeconds) + kExtraSeconds;
  pollfd ended = {.fd = process.get(), .events = POLLIN, .revents = 0};
  if (poll(&ended, 1, limit * 1000) <= 0) {
    return Fail(ErrorCode::kIo,
                fmt::format("{} has not ended within {} seconds; `kill -9 {}` ends it at once and "
                            "loses nothing but running answers",
                            Describe(record), limit, record.pid));
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  fmt::print("stopped {} in {:.1f} s\n", Describe(record), took.count());
  return 0;
}

}  // namespace

void AddStopCommand(CLI::App& app, Action& action) {
  auto port = std::make_shared<std::optional<uint16_t>>();
  CLI::App* command = app.add_subcommand("stop", "Stop a server of this user");
  command->add_option("--port", *port, "Which one, where several run");
  command->callback([port, &action] { action = [port] { return Stop(*port); }; });
}

}  // namespace slotstream::cli
