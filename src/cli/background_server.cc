#include "cli/background_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <optional>
#include <thread>
#include <utility>

#include "cli/user_directories.h"
#include "io/file.h"
#include "io/system_error.h"

namespace slotstream::cli {
namespace {

constexpr auto kPause = std::chrono::milliseconds(100);
// Of a log, in an error message.
constexpr size_t kLogTail = 2000;
constexpr size_t kMostLog = 64 << 20;

std::string Tail(const std::string& path) {
  const std::string log = io::ReadWholeFile(path, kMostLog).value_or("");
  return log.size() <= kLogTail ? log : "..." + log.substr(log.size() - kLogTail);
}

// File actions and attributes of posix_spawn.
class SpawnPlan {
 public:
  SpawnPlan() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  Result<pid_t> Spawn(const std::vector<std::string>& arguments, const std::string& log) {
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, log.c_str(),
                                     O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&actions_, STDOUT_FILENO, STDERR_FILENO);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSID);
    std::vector<char*> pointers;
    for (const std::string& argument : arguments) {
      pointers.push_back(const_cast<char*>(argument.c_str()));
    }
    pointers.push_back(nullptr);
    pid_t pid = 0;
    const int error = posix_spawn(&pid, arguments.front().c_str(), &actions_, &attributes_,
                                  pointers.data(), environ);
    if (error != 0) return std::unexpected(io::SystemError(error, "start", arguments.front()));
    return pid;
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

// Nothing while `pid` runs; 0 means that there is no process to watch.
std::optional<int> ExitStatus(pid_t pid) {
  int status = 0;
  if (pid == 0 || waitpid(pid, &status, WNOHANG) != pid) return std::nullopt;
  return status;
}

}  // namespace

Result<BackgroundServer> PlanServer(const std::string& directory, uint16_t port,
                                    const std::vector<std::string>& flags) {
  BackgroundServer server;
  server.port = port;
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) {
    return std::unexpected(
        io::SystemError(error.value(), "find this program by", "/proc/self/exe"));
  }
  const auto model = std::filesystem::absolute(directory, error);
  server.arguments = {self.string(),  "serve",  "--model",
                      model.string(), "--port", std::to_string(port)};
  server.arguments.insert(server.arguments.end(), flags.begin(), flags.end());
  SS_ASSIGN_OR_RETURN(const std::string state, StateDirectory());
  server.log = fmt::format("{}/serve-{}.log", state, port);
  return server;
}

Result<ServerState> StartServer(const BackgroundServer& server) {
  const auto directory = std::filesystem::path(server.log).parent_path();
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return std::unexpected(io::SystemError(error.value(), "make", directory.string()));
  std::error_code ignored;
  std::filesystem::rename(server.log, server.log + ".1", ignored);
  SS_ASSIGN_OR_RETURN(const pid_t pid, SpawnPlan().Spawn(server.arguments, server.log));
  for (;;) {
    // The status first: a server that answers now may have taken the port from ours.
    const std::optional<int> ended = ExitStatus(pid);
    const auto found = ProbeServer("127.0.0.1", server.port);
    if (found && *found) {
      if ((*found)->loaded) return **found;
      if (ended) return WaitForServer(server.port);
    } else if (ended) {
      return Fail(ErrorCode::kIo, fmt::format("the server did not start; the end of {}:\n{}",
                                              server.log, Tail(server.log)));
    } else if (!found && found.error().code == ErrorCode::kUnsupported) {
      return std::unexpected(found.error());
    }
    std::this_thread::sleep_for(kPause);
  }
}

Result<ServerState> WaitForServer(uint16_t port) {
  for (;;) {
    SS_ASSIGN_OR_RETURN(const std::optional<ServerState> state, ProbeServer("127.0.0.1", port));
    if (!state) {
      return Fail(ErrorCode::kNotFound,
                  fmt::format("the server on port {} ended while its model was loaded", port));
    }
    if (state->loaded) return *state;
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace slotstream::cli
