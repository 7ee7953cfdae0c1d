#include "plan/warnings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace slotstream::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Warnings, AGoodMachineHasNone) {
  const MachineFacts machine;
  const DiskFacts disk{.file_system = "ext4", .name = "nvme0n1", .kind = DiskKind::kNvme};
  const DiskRates rates = AssumedDisk(3e9, 4096);
  Plan plan;
  plan.total = 10;
  EXPECT_THAT(Warnings({.machine = machine, .disk = &disk, .rates = &rates, .plan = &plan}),
              IsEmpty());
}

TEST(Warnings, EachKindOfDisk) {
  const MachineFacts machine;
  const auto of = [&](DiskKind kind, const char* file_system, bool swap = false) {
    const DiskFacts disk{.file_system = file_system, .kind = kind};
    return Warnings({.machine = machine, .disk = &disk, .swap_on_disk = swap});
  };
  EXPECT_THAT(of(DiskKind::kUsb, "exfat"), ElementsAre(HasSubstr("USB")));
  EXPECT_THAT(of(DiskKind::kNetwork, "nfs4"), ElementsAre(HasSubstr("network")));
  EXPECT_THAT(of(DiskKind::kRotating, "ext4"), ElementsAre(HasSubstr("rotating")));
  EXPECT_THAT(of(DiskKind::kMemory, "tmpfs"), ElementsAre(HasSubstr("tmpfs")));
  EXPECT_THAT(of(DiskKind::kUnknown, "overlay"), ElementsAre(HasSubstr("volume")));
  EXPECT_THAT(of(DiskKind::kNvme, "ext4", true), ElementsAre(HasSubstr("swap")));
}

TEST(Warnings, ASlowDiskSaysWhatItCosts) {
  const MachineFacts machine;
  const DiskRates rates = AssumedDisk(0.2e9, 4096);
  Forecast forecast;
  forecast.disk_share = 0.87;
  EXPECT_THAT(Warnings({.machine = machine, .rates = &rates, .forecast = &forecast}),
              ElementsAre(::testing::AllOf(HasSubstr("200.0 MB/s"), HasSubstr("87 %"))));
}

TEST(Warnings, LimitsOfControlGroups) {
  MachineFacts machine;
  machine.memory.machine_total = 16'000'000'000;
  machine.memory.group.limit = 2'000'000'000;
  machine.container = true;
  machine.cpu.allowed = 8;
  machine.cpu.quota = 1.5;
  machine.memory.stalled = 20;
  EXPECT_THAT(Warnings({.machine = machine}),
              ElementsAre(HasSubstr("2.00 GB of the machine's 16.00 GB"), HasSubstr("1.5 of 8"),
                          HasSubstr("20 %")));
}

TEST(Warnings, LockedMemoryMattersWhereThereIsSwap) {
  MachineFacts machine;
  machine.memory.lock_limit = 8 << 20;
  EXPECT_FALSE(LockWarning(machine, 1'000'000'000));
  machine.memory.swaps.push_back({.device = "/dev/sda2", .bytes = 5});
  ASSERT_TRUE(LockWarning(machine, 1'000'000'000));
  EXPECT_THAT(*LockWarning(machine, 1'000'000'000), HasSubstr("RLIMIT_MEMLOCK"));
  EXPECT_FALSE(LockWarning(machine, 8 << 20));
  machine.memory.lock_limit = kUnlimited;
  EXPECT_FALSE(LockWarning(machine, 1'000'000'000));
}

}  // namespace
}  // namespace slotstream::plan
