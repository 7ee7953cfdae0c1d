#include "engine/engine_registry.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <span>
#include <system_error>
#include <thread>

#include "io/atomic_file.h"
#include "io/file.h"
#include "io/system_error.h"
#include "plan/system_files.h"

namespace slotstream::engine {
namespace {

namespace fs = std::filesystem;

// Planning takes milliseconds.
constexpr auto kLockPause = std::chrono::milliseconds(10);
constexpr int kLockAttempts = 500;
constexpr std::string_view kLockSuffix = ".lock";
constexpr std::string_view kPlanSuffix = ".plan";
constexpr size_t kMaxEntryBytes = 256;
constexpr size_t kMaxGroupBytes = 1 << 16;

// Tells apart the engines of one process.
std::atomic<int> next_entry = 0;

Status MakeDirectory(const std::string& directory) {
  std::error_code ignored;
  fs::create_directories(fs::path(directory).parent_path(), ignored);
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return std::unexpected(io::SystemError(errno, "create", directory));
  }
  struct stat status = {};
  if (lstat(directory.c_str(), &status) != 0) {
    return std::unexpected(io::SystemError(errno, "look at", directory));
  }
  if (!S_ISDIR(status.st_mode) || status.st_uid != geteuid()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is not a directory of this user", directory));
  }
  return {};
}

Result<std::unique_ptr<io::FileLock>> WaitForLock(const std::string& path) {
  for (int attempt = 0;; ++attempt) {
    auto lock = io::FileLock::Acquire(path);
    if (lock || lock.error().code != ErrorCode::kResourceLimit || attempt >= kLockAttempts) {
      return lock;
    }
    std::this_thread::sleep_for(kLockPause);
  }
}

uint64_t ResidentBytes(int64_t pid) {
  const auto words = plan::Words(
      io::ReadWholeFile(fmt::format("/proc/{}/statm", pid), kMaxEntryBytes).value_or(""));
  if (words.size() < 2) return 0;
  return plan::LeadingNumber(words[1]).value_or(0) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

std::string Groups(const std::string& process) {
  return io::ReadWholeFile(fmt::format("/proc/{}/cgroup", process), kMaxGroupBytes).value_or("");
}

}  // namespace

void SetPromised(const std::vector<RunningEngine>& engines, plan::MachineFacts& machine) {
  machine.memory_promised = machine.group_promised = 0;
  for (const RunningEngine& engine : engines) {
    if (engine.planned <= engine.resident) continue;
    machine.memory_promised += engine.planned - engine.resident;
    if (engine.same_group) machine.group_promised += engine.planned - engine.resident;
  }
}

// The lock goes after the plan, so that a reader that finds the lock held finds the plan too, or
// none at all.
EngineEntry::~EngineEntry() {
  std::error_code ignored;
  fs::remove(plan_file_, ignored);
  fs::remove(lock_->path(), ignored);
}

Result<EngineRegistry> EngineRegistry::Open(const std::string& directory) {
  SS_RETURN_IF_ERROR(MakeDirectory(directory));
  SS_ASSIGN_OR_RETURN(auto lock, WaitForLock(directory + "/registry"));
  EngineRegistry registry(directory, std::move(lock));
  registry.ReadEntries();
  return registry;
}

void EngineRegistry::ReadEntries() {
  std::error_code error;
  for (fs::directory_iterator entry(directory_, error), end; !error && entry != end;
       entry.increment(error)) {
    const fs::path path = entry->path();
    if (path.extension() != kLockSuffix) continue;
    fs::path plan_file = path;
    plan_file.replace_extension(kPlanSuffix);
    if (io::FileLock::Acquire(path)) {
      // Nobody holds it, and nobody can be about to: names are new each time, and made under the
      // registry's lock.
      std::error_code ignored;
      fs::remove(plan_file, ignored);
      fs::remove(path, ignored);
      continue;
    }
    RunningEngine engine;
    engine.pid = static_cast<int64_t>(
        plan::LeadingNumber(io::ReadWholeFile(path, kMaxEntryBytes).value_or("")).value_or(0));
    engine.planned =
        plan::LeadingNumber(io::ReadWholeFile(plan_file, kMaxEntryBytes).value_or("")).value_or(0);
    engine.resident = ResidentBytes(engine.pid);
    engine.same_group = Groups(std::to_string(engine.pid)) == Groups("self");
    engines_.push_back(engine);
  }
}

Result<std::unique_ptr<EngineEntry>> EngineRegistry::Enter(uint64_t planned) {
  const std::string name = fmt::format("{}/{}-{}", directory_, getpid(), next_entry.fetch_add(1));
  const std::string plan_file = name + std::string(kPlanSuffix);
  SS_ASSIGN_OR_RETURN(auto lock, io::FileLock::Acquire(name + std::string(kLockSuffix)));
  const std::string text = fmt::format("{}\n", planned);
  SS_RETURN_IF_ERROR(
      io::WriteFileAtomically(plan_file, std::as_bytes(std::span(text.data(), text.size()))));
  return std::unique_ptr<EngineEntry>(new EngineEntry(std::move(lock), plan_file));
}

}  // namespace slotstream::engine
