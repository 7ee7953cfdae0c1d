#include "engine/engine_registry.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "engine/test_support.h"

namespace slotstream::engine {
namespace {

std::vector<RunningEngine> Others(const std::string& directory) {
  auto registry = EngineRegistry::Open(directory);
  EXPECT_TRUE(registry) << registry.error().message;
  return registry ? registry->engines() : std::vector<RunningEngine>{};
}

std::unique_ptr<EngineEntry> Enter(const std::string& directory, uint64_t planned) {
  auto registry = EngineRegistry::Open(directory);
  EXPECT_TRUE(registry);
  auto entry = registry->Enter(planned);
  EXPECT_TRUE(entry) << entry.error().message;
  return std::move(*entry);
}

TEST(EngineRegistry, EnginesSeeEachOther) {
  const ScratchDirectory scratch;
  const std::string directory = scratch.Path("run/slotstream");
  EXPECT_TRUE(Others(directory).empty());
  auto first = Enter(directory, 1000);
  auto second = Enter(directory, uint64_t{1} << 40);
  std::vector<RunningEngine> others = Others(directory);
  std::ranges::sort(others, {}, &RunningEngine::planned);
  ASSERT_EQ(others.size(), 2u);
  EXPECT_EQ(others[0].planned, 1000u);
  EXPECT_EQ(others[0].pid, getpid());
  EXPECT_GT(others[0].resident, 100'000u);
  // What is resident is not available any more; only the rest is promised.
  plan::MachineFacts machine;
  others[0].same_group = others[1].same_group;
  SetPromised(others, machine);
  EXPECT_EQ(machine.memory_promised, (uint64_t{1} << 40) - others[1].resident);
  EXPECT_EQ(machine.group_promised, machine.memory_promised);
  others[1].same_group = false;
  SetPromised(others, machine);
  EXPECT_EQ(machine.group_promised, 0u);
  second.reset();
  EXPECT_EQ(Others(directory).size(), 1u);
  first.reset();
  EXPECT_TRUE(Others(directory).empty());
  // Only the registry's own lock stays behind.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory), {}), 1);
}

TEST(EngineRegistry, TheDeadDoNotCount) {
  const ScratchDirectory scratch;
  const std::string directory = scratch.Path("run");
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto registry = EngineRegistry::Open(directory);
    if (registry) (void)registry->Enter(77).value().release();
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_GE(std::distance(std::filesystem::directory_iterator(directory), {}), 3);
  EXPECT_TRUE(Others(directory).empty());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory), {}), 1);
  // A process id that is in use again says nothing.
  std::ofstream(directory + "/1-0.lock") << getpid() << "\n";
  std::ofstream(directory + "/1-0.plan") << "99\n";
  EXPECT_TRUE(Others(directory).empty());
}

TEST(EngineRegistry, OnePlansAtATime) {
  const ScratchDirectory scratch;
  const std::string directory = scratch.Path("run");
  std::optional<EngineRegistry> held = std::move(*EngineRegistry::Open(directory));
  std::thread other([&] { EXPECT_EQ(Others(directory).size(), 1u); });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  auto entry = held->Enter(5);
  held.reset();
  other.join();
}

TEST(EngineRegistry, ADirectoryOfItsOwner) {
  const ScratchDirectory scratch;
  const std::string directory = scratch.Path("run");
  auto entry = Enter(directory, 5);
  struct stat status = {};
  ASSERT_EQ(stat(directory.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  std::ofstream(scratch.Path("file")) << "x";
  EXPECT_EQ(EngineRegistry::Open(scratch.Path("file")).error().code, ErrorCode::kInvalidArgument);
  std::filesystem::create_directory_symlink(directory, scratch.Path("link"));
  EXPECT_EQ(EngineRegistry::Open(scratch.Path("link")).error().code, ErrorCode::kInvalidArgument);
  std::ofstream(directory + "/nonsense.lock") << "not a number";
  EXPECT_EQ(Others(directory).size(), 1u);
}

TEST(EngineRegistry, TheSecondPlansWithWhatIsLeft) {
  const ScratchDirectory scratch;
  LoadOptions options;
  options.directory = MiniatureDirectory();
  options.registry_directory = scratch.Path("run");
  std::vector<std::string> notes;
  const auto alone = LoadedModel::Load(options, {}, notes);
  ASSERT_TRUE(alone) << alone.error().message;
  EXPECT_TRUE(notes.empty() || notes[0].find("another slotstream") == std::string::npos);
  const auto beside = LoadedModel::Load(options, {}, notes);
  ASSERT_TRUE(beside);
  EXPECT_TRUE(std::ranges::any_of(notes, [](const std::string& note) {
    return note.find("another slotstream") != std::string::npos;
  }));
  // A third, beside one who wants everything, is refused.
  auto greedy = Enter(options.registry_directory, uint64_t{1} << 50);
  const auto third = LoadedModel::Load(options, {}, notes);
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, ErrorCode::kResourceLimit);
  EXPECT_NE(third.error().message.find("other slotstream engines"), std::string::npos);
}

}  // namespace
}  // namespace slotstream::engine
