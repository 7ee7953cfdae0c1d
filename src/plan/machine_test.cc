#include "plan/machine.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "io/test_directory.h"

namespace slotstream::plan {
namespace {

constexpr uint64_t kMiB = 1 << 20;

// A root directory with the files of a machine.
class Machine {
 public:
  Machine& With(const std::string& path, const std::string& text) {
    const std::filesystem::path full = directory_ / path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
    return *this;
  }
  Machine& WithMemory(uint64_t mib) {
    return With("proc/meminfo",
                "MemTotal:       99999999 kB\nMemFree:             7 kB\n"
                "MemAvailable:   " +
                    std::to_string(mib * 1024) + " kB\n");
  }
  // A group of version 2, with `file` bytes of page cache.
  Machine& WithGroup(const std::string& path, const std::string& max, uint64_t current,
                     uint64_t file) {
    const std::string directory = "sys/fs/cgroup/" + path;
    return With(directory + "/memory.max", max + "\n")
        .With(directory + "/memory.current", std::to_string(current) + "\n")
        .With(directory + "/memory.stat",
              "anon 1\nfile_mapped 3\nfile " + std::to_string(file) + "\nfile_dirty 5\n");
  }
  Machine& WithOldGroup(const std::string& path, uint64_t limit, uint64_t usage, uint64_t cache) {
    const std::string directory = "sys/fs/cgroup/memory/" + path;
    return With(directory + "/memory.limit_in_bytes", std::to_string(limit) + "\n")
        .With(directory + "/memory.usage_in_bytes", std::to_string(usage) + "\n")
        .With(directory + "/memory.stat",
              "cache 17\nmapped_file 3\ntotal_cache " + std::to_string(cache) + "\n");
  }
  uint64_t Available() const { return ReadMachineFacts(directory_.path()).memory_available; }

 private:
  io::TestDirectory directory_;
};

TEST(Machine, MemoryWithoutControlGroups) {
  EXPECT_EQ(Machine().WithMemory(900).Available(), 900 * kMiB);
}

TEST(Machine, WhatCannotBeReadDoesNotLimit) {
  EXPECT_EQ(Machine().Available(), UINT64_MAX);
  EXPECT_EQ(Machine().WithMemory(5).With("proc/self/cgroup", "0::/gone/away\n").Available(),
            5 * kMiB);
  EXPECT_EQ(Machine().WithMemory(5).With("proc/self/cgroup", "nonsense\n\n:\n").Available(),
            5 * kMiB);
  EXPECT_EQ(Machine().With("proc/meminfo", "MemAvailable: none\n").Available(), UINT64_MAX);
}

TEST(Machine, LimitOfTheGroupItself) {
  Machine machine;
  machine.WithMemory(900).With("proc/self/cgroup", "0::/work/job\n");
  machine.WithGroup("work/job", std::to_string(500 * kMiB), 100 * kMiB, 30 * kMiB);
  EXPECT_EQ(machine.Available(), 430 * kMiB);  // page cache can go
}

TEST(Machine, LimitOfAParent) {
  Machine machine;
  machine.WithMemory(900).With("proc/self/cgroup", "0::/work/job/step\n");
  machine.WithGroup("work/job/step", "max", 10 * kMiB, 0);
  machine.WithGroup("work/job", std::to_string(800 * kMiB), 10 * kMiB, 0);
  machine.WithGroup("work", std::to_string(300 * kMiB), 50 * kMiB, 0);
  EXPECT_EQ(machine.Available(), 250 * kMiB);
  machine.WithGroup("", std::to_string(60 * kMiB), 50 * kMiB, 0);  // a container's own root
  EXPECT_EQ(machine.Available(), 10 * kMiB);
}

TEST(Machine, NoLimitAtAll) {
  Machine machine;
  machine.WithMemory(900).With("proc/self/cgroup", "0::/\n").WithGroup("", "max", 10 * kMiB, 0);
  EXPECT_EQ(machine.Available(), 900 * kMiB);
}

TEST(Machine, UseBeyondTheLimitLeavesNothing) {
  Machine machine;
  machine.WithMemory(900).With("proc/self/cgroup", "0::/a\n");
  machine.WithGroup("a", std::to_string(10 * kMiB), 20 * kMiB, 0);
  EXPECT_EQ(machine.Available(), 0u);
}

TEST(Machine, MissingUseAndStatisticsCountAsNone) {
  Machine machine;
  machine.WithMemory(900).With("proc/self/cgroup", "0::/a\n");
  machine.With("sys/fs/cgroup/a/memory.max", std::to_string(70 * kMiB));
  EXPECT_EQ(machine.Available(), 70 * kMiB);
}

TEST(Machine, VersionOne) {
  Machine machine;
  machine.WithMemory(900).With("proc/self/cgroup",
                               "12:cpuset:/elsewhere\n5:cpu,memory:/docker/abc\n"
                               "1:name=systemd:/docker/abc\n0::/system.slice\n");
  machine.WithOldGroup("docker/abc", 9223372036854771712u, 100 * kMiB, 0);
  EXPECT_EQ(machine.Available(), 900 * kMiB);
  machine.WithOldGroup("docker", 400 * kMiB, 100 * kMiB, 25 * kMiB);
  EXPECT_EQ(machine.Available(), 325 * kMiB);
  machine.WithOldGroup("elsewhere", 1, 0, 0);  // another controller's group
  EXPECT_EQ(machine.Available(), 325 * kMiB);
  machine.WithOldGroup("", 50 * kMiB, 0, 0);
  EXPECT_EQ(machine.Available(), 50 * kMiB);
}

TEST(Machine, ThisOne) {
  const MachineFacts facts = ReadMachineFacts();
  EXPECT_GE(facts.cores, 1);
  EXPECT_GT(facts.memory_available, 0u);
  EXPECT_LT(facts.memory_available, UINT64_MAX);
}

}  // namespace
}  // namespace slotstream::plan
