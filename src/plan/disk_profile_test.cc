#include "plan/disk_profile.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "io/test_directory.h"

namespace slotstream::plan {
namespace {

constexpr int64_t kThen = 1'700'000'000;

ProfileKey Key() {
  ProfileKey key;
  key.disk = {.device = 7,
              .file_system = "ext4",
              .name = "sda",
              .kind = DiskKind::kSolidState,
              .file_bytes = 1000,
              .file_modified = 99};
  key.record_bytes = 4096;
  key.io = "io_uring";
  return key;
}

StoredRates Rates() {
  StoredRates stored;
  stored.rates.single = {1e9, 1.25e9, 1.5e9};
  stored.rates.full = {2e9, 2.1e9, 3e9};
  stored.rates.ordered = {2.5e9, 2.6e9, 3.5e9};
  stored.rates.rows_per_second = 54321;
  stored.rates.core_seconds = 0.25e-9;
  stored.measured_at = kThen;
  return stored;
}

TEST(DiskProfile, IsReadAsWritten) {
  io::TestDirectory directory;
  const std::string path = directory.path() + "/new/cache";
  ASSERT_TRUE(SaveProfile(path, Key(), Rates()));
  const auto loaded = LoadProfile(path, Key(), kThen + 1000);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->rates.single.typical, 1.25e9);
  EXPECT_EQ(loaded->rates.full.high, 3e9);
  EXPECT_EQ(loaded->rates.ordered.low, 2.5e9);
  EXPECT_EQ(loaded->rates.rows_per_second, 54321);
  EXPECT_EQ(loaded->rates.core_seconds, 0.25e-9);
  EXPECT_EQ(loaded->measured_at, kThen);
}

TEST(DiskProfile, KnowsWhenItIsOutOfDate) {
  io::TestDirectory directory;
  const auto outcome = [&](const ProfileKey& key, int64_t now) -> std::string {
    const auto loaded = LoadProfile(directory.path(), key, now);
    if (loaded) return "";
    EXPECT_EQ(loaded.error().code, ErrorCode::kNotFound);
    return loaded.error().message;
  };
  EXPECT_NE(outcome(Key(), kThen), "");
  ASSERT_TRUE(SaveProfile(directory.path(), Key(), Rates()));
  EXPECT_EQ(outcome(Key(), kThen + kProfileSeconds), "");
  EXPECT_NE(outcome(Key(), kThen + kProfileSeconds + 1), "");
  EXPECT_NE(outcome(Key(), kThen - 1), "");
  std::vector<ProfileKey> others(6, Key());
  others[0].disk.device = 8;
  others[1].disk.file_bytes = 1001;
  others[2].disk.file_modified = 100;
  others[3].disk.name = "sdb";
  others[4].record_bytes = 8192;
  others[5].io = "threads";
  for (const ProfileKey& key : others) EXPECT_NE(outcome(key, kThen), "");
}

TEST(DiskProfile, NonsenseIsCorrupt) {
  io::TestDirectory directory;
  ASSERT_TRUE(SaveProfile(directory.path(), Key(), Rates()));
  const std::filesystem::path path = std::filesystem::directory_iterator(directory.path())->path();
  const std::string good = io::ReadTestFile(path);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("{\"version\": 3}"),
        good.substr(0, good.size() / 2), with("\"version\": 3", "\"version\": 2"),
        with("54321.0", "\"many\""), with("2.5e-10", "[]"), with("1000000000.0", "-1.0"),
        with("2100000000.0", "1e12"), with("1700000000", "17.5")}) {
    std::ofstream(path) << text;
    const auto loaded = LoadProfile(directory.path(), Key(), kThen);
    ASSERT_FALSE(loaded) << text;
    EXPECT_EQ(loaded.error().code, ErrorCode::kCorrupt) << text;
  }
}

}  // namespace
}  // namespace slotstream::plan
