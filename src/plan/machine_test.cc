#include "plan/machine.h"

#include <gtest/gtest.h>

#include <string>

#include "plan/fake_machine.h"

namespace slotstream::plan {
namespace {

constexpr uint64_t kMiB = 1 << 20;

TEST(Machine, MemoryWithoutControlGroups) {
  EXPECT_EQ(FakeMachine().WithMemory(900).Available(), 900 * kMiB);
}

TEST(Machine, WhatCannotBeReadDoesNotLimit) {
  EXPECT_EQ(FakeMachine().Available(), UINT64_MAX);
  EXPECT_EQ(FakeMachine().WithMemory(5).With("proc/self/cgroup", "0::/gone/away\n").Available(),
            5 * kMiB);
  EXPECT_EQ(FakeMachine().WithMemory(5).With("proc/self/cgroup", "nonsense\n\n:\n").Available(),
            5 * kMiB);
  EXPECT_EQ(FakeMachine().With("proc/meminfo", "MemAvailable: none\n").Available(), UINT64_MAX);
}

TEST(Machine, LimitOfTheGroupItself) {
  FakeMachine machine;
  machine.WithMemory(900).With("proc/self/cgroup", "0::/work/job\n");
  machine.WithGroup("work/job", std::to_string(500 * kMiB), 100 * kMiB, 30 * kMiB);
  EXPECT_EQ(machine.Available(), 430 * kMiB);  // page cache can go
}

TEST(Machine, LimitOfAParent) {
  FakeMachine machine;
  machine.WithMemory(900).With("proc/self/cgroup", "0::/work/job/step\n");
  machine.WithGroup("work/job/step", "max", 10 * kMiB, 0);
  machine.WithGroup("work/job", std::to_string(800 * kMiB), 10 * kMiB, 0);
  machine.WithGroup("work", std::to_string(300 * kMiB), 50 * kMiB, 0);
  EXPECT_EQ(machine.Available(), 250 * kMiB);
  machine.WithGroup("", std::to_string(60 * kMiB), 50 * kMiB, 0);  // a container's own root
  EXPECT_EQ(machine.Available(), 10 * kMiB);
}

TEST(Machine, NoLimitAtAll) {
  FakeMachine machine;
  machine.WithMemory(900).With("proc/self/cgroup", "0::/\n").WithGroup("", "max", 10 * kMiB, 0);
  EXPECT_EQ(machine.Available(), 900 * kMiB);
}

TEST(Machine, UseBeyondTheLimitLeavesNothing) {
  FakeMachine machine;
  machine.WithMemory(900).With("proc/self/cgroup", "0::/a\n");
  machine.WithGroup("a", std::to_string(10 * kMiB), 20 * kMiB, 0);
  EXPECT_EQ(machine.Available(), 0u);
}

TEST(Machine, MissingUseAndStatisticsCountAsNone) {
  FakeMachine machine;
  machine.WithMemory(900).With("proc/self/cgroup", "0::/a\n");
  machine.With("sys/fs/cgroup/a/memory.max", std::to_string(70 * kMiB));
  EXPECT_EQ(machine.Available(), 70 * kMiB);
}

TEST(Machine, VersionOne) {
  FakeMachine machine;
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

TEST(Machine, GroupsTellHowOftenTheyHitTheirLimit) {
  FakeMachine machine;
  machine.WithMemory(900).With("proc/self/cgroup", "0::/a/b\n");
  EXPECT_FALSE(ReadGroupMemory(machine.files()).events);
  machine.With("sys/fs/cgroup/a/b/memory.events", "low 1\nhigh 3\nmax 5\noom 7\noom_kill 9\n");
  machine.With("sys/fs/cgroup/a/memory.events", "low 0\nhigh 0\nmax 2\n");
  machine.With("sys/fs/cgroup/a/b/memory.pressure",
               "some avg10=12.50 avg60=1.00 avg300=0.10 total=99\nfull avg10=3.00 avg60=0.00\n");
  const GroupMemory memory = ReadGroupMemory(machine.files());
  EXPECT_EQ(memory.events, 10u);
  EXPECT_EQ(memory.stalled, 12.5);
  FakeMachine old;
  old.With("proc/self/cgroup", "4:memory:/x\n");
  old.With("sys/fs/cgroup/memory/x/memory.failcnt", "6\n");
  EXPECT_EQ(ReadGroupMemory(old.files()).events, 6u);
}

TEST(Machine, QuotasLimitCores) {
  FakeMachine machine;
  EXPECT_FALSE(ReadGroupCores(machine.files()));
  machine.With("proc/self/cgroup", "0::/a/b\n").With("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  EXPECT_FALSE(ReadGroupCores(machine.files()));
  machine.With("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  EXPECT_EQ(ReadGroupCores(machine.files()), 1.5);
  EXPECT_LE(ReadCpuFacts(machine.files()).cores, 2);
  machine.With("sys/fs/cgroup/a/b/cpu.max", "20000 100000\n");
  EXPECT_EQ(ReadGroupCores(machine.files()), 0.2);
  EXPECT_EQ(ReadCpuFacts(machine.files()).cores, 1);
  FakeMachine old;
  old.With("proc/self/cgroup", "3:cpu,cpuacct:/x\n");
  old.With("sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "-1\n")
      .With("sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n");
  EXPECT_FALSE(ReadGroupCores(old.files()));
  old.With("sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "300000\n");
  EXPECT_EQ(ReadGroupCores(old.files()), 3.0);
}

TEST(Machine, SwapAndPressureAndHugePages) {
  FakeMachine machine;
  machine.WithMemory(900)
      .With("proc/swaps",
            "Filename Type Size Used Priority\n/dev/zram0 partition 2048 0 100\n"
            "/swapfile file 4096 12 -2\n")
      .With("proc/pressure/memory", "some avg10=7.25 avg60=0.00 avg300=0.00 total=1\n")
      .With("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  const MemoryFacts memory = ReadMachineFacts(machine.root()).memory;
  ASSERT_EQ(memory.swaps.size(), 2u);
  EXPECT_TRUE(memory.swaps[0].compressed_memory);
  EXPECT_EQ(memory.swaps[0].bytes, 2 * kMiB);
  EXPECT_FALSE(memory.swaps[1].compressed_memory);
  EXPECT_EQ(memory.stalled, 7.25);
  EXPECT_EQ(memory.huge_pages, "madvise");
  EXPECT_EQ(memory.total, 99999999ull * 1024);
}

TEST(Machine, ProcessorsCachesAndGraphics) {
  FakeMachine machine;
  const std::string cache = "sys/devices/system/cpu/cpu0/cache/index";
  machine.With("proc/cpuinfo", "processor : 0\nmodel name\t: Some CPU 9\nflags : a b\n")
      .With(cache + "0/type", "Data\n")
      .With(cache + "0/level", "1\n")
      .With(cache + "0/size", "32K\n")
      .With(cache + "0/shared_cpu_list", "0\n")
      .With(cache + "1/type", "Instruction\n")
      .With(cache + "2/type", "Unified\n")
      .With(cache + "2/level", "3\n")
      .With(cache + "2/size", "16M\n")
      .With(cache + "2/shared_cpu_list", "0-3,8,10-11\n")
      .With("proc/driver/nvidia/gpus/0000:01/information", "Model: \t GeForce X\nIRQ: 1\n")
      .With("sys/class/drm/card0/device/vendor", "0x10de\n")
      .With("sys/class/drm/card1/device/vendor", "0x1002\n")
      .With("sys/class/drm/card1/device/device", "0x73bf\n")
      .With("sys/class/drm/card1-DP-1/status", "connected\n")
      .With(".dockerenv", "");
  const MachineFacts facts = ReadMachineFacts(machine.root());
  EXPECT_EQ(facts.cpu.name, "Some CPU 9");
  ASSERT_EQ(facts.cpu.caches.size(), 2u);
  EXPECT_EQ(facts.cpu.caches[0].bytes, 32u << 10);
  EXPECT_EQ(facts.cpu.caches[1].level, 3);
  EXPECT_EQ(facts.cpu.caches[1].bytes, 16u << 20);
  EXPECT_EQ(facts.cpu.caches[1].shared_by, 7);
  EXPECT_EQ(facts.gpus, (std::vector<std::string>{"GeForce X", "AMD 73bf"}));
  EXPECT_TRUE(facts.container);
  EXPECT_FALSE(ReadMachineFacts(FakeMachine().root()).container);
}

TEST(Machine, ThisOne) {
  const MachineFacts facts = ReadMachineFacts();
  EXPECT_GE(facts.cores, 1);
  EXPECT_GT(facts.memory_available, 0u);
  EXPECT_LT(facts.memory_available, UINT64_MAX);
}

}  // namespace
}  // namespace slotstream::plan
