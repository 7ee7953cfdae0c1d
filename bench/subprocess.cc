#include "bench/subprocess.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

extern char** environ;

namespace slotstream::bench {

Result<std::unique_ptr<Subprocess>> Subprocess::Start(const std::vector<std::string>& arguments) {
  // Writing to a process that has gone is an error to be read, not a signal.
  signal(SIGPIPE, SIG_IGN);
  std::array<int, 2> to{}, from{};
  if (pipe2(to.data(), O_CLOEXEC) != 0) {
    return Fail(ErrorCode::kIo, fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  }
  if (pipe2(from.data(), O_CLOEXEC) != 0) {
    const int error = errno;
    close(to[0]);
    close(to[1]);
    return Fail(ErrorCode::kIo, fmt::format("cannot make a pipe: {}", std::strerror(error)));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
  std::vector<std::string> words = arguments;
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  auto process = std::unique_ptr<Subprocess>(new Subprocess);
  process->program_ = arguments.front();
  const int error =
      posix_spawn(&process->pid_, pointers[0], &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(to[0]);
  close(from[1]);
  process->input_ = fdopen(to[1], "w");
  process->output_ = fdopen(from[0], "r");
  if (error != 0) {
    process->pid_ = -1;
    return Fail(ErrorCode::kIo,
                fmt::format("cannot start {}: {}", arguments.front(), std::strerror(error)));
  }
  return process;
}

Subprocess::~Subprocess() { (void)Wait(); }

Status Subprocess::Wait() {
  if (input_ != nullptr) std::fclose(std::exchange(input_, nullptr));
  if (output_ != nullptr) std::fclose(std::exchange(output_, nullptr));
  if (pid_ < 0) return {};
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return Fail(ErrorCode::kIo,
              WIFEXITED(status)
                  ? fmt::format("{} ended with status {}", program_, WEXITSTATUS(status))
                  : fmt::format("{} was ended by signal {}", program_, WTERMSIG(status)));
}

void Subprocess::WriteLine(const std::string& line) {
  fmt::print(input_, "{}\n", line);
  std::fflush(input_);
}

Result<std::string> Subprocess::ReadLine() {
  std::string line;
  for (int c = std::fgetc(output_); c != '\n'; c = std::fgetc(output_)) {
    if (c == EOF) {
      return Fail(ErrorCode::kIo, fmt::format("{} has ended without an answer", program_));
    }
    line += static_cast<char>(c);
  }
  return line;
}

Result<std::string> Subprocess::ReadAll() {
  std::string text;
  std::array<char, 4096> buffer;
  while (size_t count = std::fread(buffer.data(), 1, buffer.size(), output_)) {
    text.append(buffer.data(), count);
  }
  SS_RETURN_IF_ERROR(Wait());
  return text;
}

}  // namespace slotstream::bench
