#include "plan/disk_facts.h"

#include <gtest/gtest.h>
#include <sys/sysmacros.h>

#include "plan/fake_machine.h"

namespace slotstream::plan {
namespace {

// A block device with number 259:1 whose files lie in `directory`, mounted at /.
FakeMachine& WithDisk(FakeMachine& machine, const std::string& directory, const char* rotational) {
  return machine.With(directory + "/queue/rotational", rotational)
      .WithLink("sys/dev/block/259:1", directory)
      .With("proc/self/mountinfo", "22 1 259:1 / / rw,relatime - ext4 /dev/root rw\n");
}

const uint64_t kDevice = makedev(259, 1);

DiskFacts Describe(const FakeMachine& machine, uint64_t device = kDevice) {
  return DescribeDevice(machine.files(), device);
}

TEST(DiskFacts, KindsOfDisks) {
  const struct {
    const char* directory;
    const char* rotational;
    const char* name;
    DiskKind kind;
  } cases[] = {
      {"sys/devices/pci0/nvme/nvme0/nvme0n1", "0", "nvme0n1", DiskKind::kNvme},
      {"sys/devices/pci0/ata1/block/sda", "0", "sda", DiskKind::kSolidState},
      {"sys/devices/pci0/ata2/block/sdb", "1", "sdb", DiskKind::kRotating},
      {"sys/devices/pci0/usb3/3-1/block/sdc", "1", "sdc", DiskKind::kUsb},
      {"sys/devices/pci0/virtio1/block/vda", "1", "vda", DiskKind::kVirtual},
  };
  for (const auto& disk : cases) {
    FakeMachine machine;
    WithDisk(machine, disk.directory, disk.rotational);
    const DiskFacts facts = Describe(machine);
    EXPECT_EQ(facts.kind, disk.kind) << disk.directory;
    EXPECT_EQ(facts.name, disk.name);
    EXPECT_EQ(facts.file_system, "ext4");
  }
}

TEST(DiskFacts, APartitionIsItsDisk) {
  FakeMachine machine;
  WithDisk(machine, "sys/devices/pci0/ata1/block/sda", "1");
  machine.With("sys/devices/pci0/ata1/block/sda/sda3/partition", "3\n")
      .WithLink("sys/dev/block/8:3", "sys/devices/pci0/ata1/block/sda/sda3");
  EXPECT_EQ(Describe(machine, makedev(8, 3)).name, "sda");
  EXPECT_EQ(Describe(machine, makedev(8, 3)).kind, DiskKind::kRotating);
}

TEST(DiskFacts, WhatLiesOnAnotherDevice) {
  FakeMachine machine;
  WithDisk(machine, "sys/devices/pci0/nvme/nvme0/nvme0n1", "0");
  // An encrypted volume.
  machine.With("sys/devices/virtual/block/dm-0/slaves/nvme0n1/size", "1")
      .WithLink("sys/class/block/nvme0n1", "sys/devices/pci0/nvme/nvme0/nvme0n1")
      .WithLink("sys/dev/block/253:0", "sys/devices/virtual/block/dm-0");
  EXPECT_EQ(Describe(machine, makedev(253, 0)).kind, DiskKind::kNvme);
  // Btrfs has numbers of its own.
  machine.With("proc/self/mountinfo", "9 1 0:44 / /data rw - btrfs /dev/nvme0n1 rw,compress\n");
  EXPECT_EQ(Describe(machine, makedev(0, 44)).kind, DiskKind::kNvme);
  EXPECT_EQ(Describe(machine, makedev(0, 44)).file_system, "btrfs");
}

TEST(DiskFacts, FileSystemsWithoutADisk) {
  FakeMachine machine;
  machine.With("proc/self/mountinfo",
               "30 1 0:50 / /mnt rw shared:7 master:2 - nfs4 server:/data rw\n"
               "31 1 0:51 / /tmp rw - tmpfs tmpfs rw\n32 1 0:52 / / rw - overlay overlay rw\n"
               "nonsense\n33 1 0:53 / /x rw\n");
  EXPECT_EQ(Describe(machine, makedev(0, 50)).kind, DiskKind::kNetwork);
  EXPECT_EQ(Describe(machine, makedev(0, 51)).kind, DiskKind::kMemory);
  EXPECT_EQ(Describe(machine, makedev(0, 52)).file_system, "overlay");
  EXPECT_EQ(Describe(machine, makedev(0, 52)).kind, DiskKind::kUnknown);
  EXPECT_EQ(Describe(machine, makedev(0, 53)).file_system, "");
  EXPECT_EQ(Describe(FakeMachine(), makedev(8, 1)).kind, DiskKind::kUnknown);
}

TEST(DiskFacts, SwapOnTheModelsDisk) {
  FakeMachine machine;
  WithDisk(machine, "sys/devices/pci0/ata1/block/sda", "0");
  machine.With("sys/devices/pci0/ata1/block/sda/sda2/partition", "2\n")
      .WithLink("sys/class/block/sda2", "sys/devices/pci0/ata1/block/sda/sda2")
      .With("sys/devices/pci0/ata2/block/sdb/size", "2\n")
      .WithLink("sys/class/block/sdb", "sys/devices/pci0/ata2/block/sdb");
  const DiskFacts disk = Describe(machine);
  const auto swaps = [&](const char* device, bool compressed) {
    return SwapsOn(machine.files(), disk, {{device, 1000, compressed}});
  };
  EXPECT_TRUE(swaps("/dev/sda2", false));
  EXPECT_FALSE(swaps("/dev/sdb", false));
  EXPECT_FALSE(swaps("/dev/zram0", true));
  EXPECT_TRUE(swaps("/swapfile", false));
  EXPECT_FALSE(SwapsOn(machine.files(), disk, {}));
}

TEST(DiskFacts, OfAFile) {
  io::TestDirectory directory;
  io::WriteTestFile(directory / "f", io::RandomBytes(1234, 1));
  const auto facts = ReadDiskFacts(directory / "f");
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->file_bytes, 1234u);
  EXPECT_GT(facts->file_modified, 0);
  EXPECT_NE(facts->device, 0u);
  EXPECT_EQ(ReadDiskFacts(directory / "none").error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace slotstream::plan
