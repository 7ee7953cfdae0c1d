#include "checkpoint/pack_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "checkpoint/checkpoint.h"
#include "checkpoint/sha256.h"
#include "checkpoint/synthetic_checkpoint.h"
#include "io/file_lock.h"
#include "io/test_directory.h"

namespace slotstream::checkpoint {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Few layers and experts: packs in a moment, still of several chunks per part.
nlohmann::json SmallConfig() {
  nlohmann::json config = OddConfig();
  config["text_config"]["num_hidden_layers"] = 6;
  config["text_config"]["num_experts"] = 12;
  config["text_config"]["mtp_num_hidden_layers"] = 1;
  return config;
}

std::map<std::string, std::string> Contents(const std::string& directory) {
  std::map<std::string, std::string> out;
  for (const auto& entry : fs::directory_iterator(directory)) {
    out[entry.path().filename()] = io::ReadTestFile(entry.path());
  }
  return out;
}

class PackTest : public ::testing::Test {
 protected:
  PackTest() {
    fs::create_directory(source());
    SyntheticCheckpoint(SmallConfig()).Write(source());
    options_.journal_bytes = 300'000;
  }

  std::string source() const { return directory_ / "source"; }
  std::string target() const { return directory_ / "packed"; }
  std::string work() const { return directory_ / "packed.packing"; }

  const std::map<std::string, std::string>& Reference() {
    if (reference_.empty()) {
      auto summary = Pack(source(), directory_ / "reference", {});
      EXPECT_TRUE(summary) << summary.error().message;
      reference_ = Contents(directory_ / "reference");
    }
    return reference_;
  }

  // Packs to the end and compares with what an undisturbed pack gives.
  PackSummary Complete() {
    auto summary = Pack(source(), target(), options_);
    EXPECT_TRUE(summary) << summary.error().message;
    if (!summary) return {};
    EXPECT_EQ(Contents(target()), Reference());
    fs::remove_all(target());
    return *summary;
  }

  // Runs a pack that stops after `calls` progress calls; how many there were if it did not.
  int PackUntil(int calls) {
    std::atomic<bool> cancel = false;
    PackOptions options = options_;
    int count = 0;
    options.cancel = &cancel;
    options.progress = [&](std::string_view, uint64_t done, uint64_t total) {
      EXPECT_LE(done, total);
      if (++count >= calls) cancel = true;
    };
    auto summary = Pack(source(), target(), options);
    if (!summary) {
      EXPECT_EQ(summary.error().code, ErrorCode::kCancelled) << summary.error().message;
      EXPECT_FALSE(fs::exists(target()));
    }
    return count;
  }

  // The same in a process of its own that is killed at that point.
  void KillAfter(int calls) {
    const pid_t child = fork();
    if (child == 0) {
      PackOptions options = options_;
      int count = 0;
      options.progress = [&](std::string_view, uint64_t, uint64_t) {
        if (++count == calls) raise(SIGKILL);
      };
      const bool done = Pack(source(), target(), options).has_value();
      _exit(done ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
  }

  io::TestDirectory directory_;
  PackOptions options_;
  std::map<std::string, std::string> reference_;
};

TEST_F(PackTest, SideFilesAndSourcesAreRecorded) {
  SyntheticCheckpoint::WriteText(source() + "/chat_template.jinja", "{{ x }}");
  SyntheticCheckpoint::WriteText(source() + "/.hidden", "x");
  auto summary = Pack(source(), target() + "/", options_);
  ASSERT_TRUE(summary) << summary.error().message;
  EXPECT_FALSE(summary->resumed);
  EXPECT_EQ(io::ReadTestFile(target() + "/chat_template.jinja"), "{{ x }}");
  EXPECT_FALSE(fs::exists(target() + "/.hidden"));
  EXPECT_FALSE(fs::exists(target() + "/model.safetensors.index.json"));
  const auto manifest = nlohmann::json::parse(io::ReadTestFile(target() + "/manifest.json"));
  ASSERT_EQ(manifest["sources"].size(), 4u);
  for (const auto& entry : manifest["sources"]) {
    const std::string text = io::ReadTestFile(source() + "/" + entry["name"].get<std::string>());
    EXPECT_EQ(entry["bytes"], text.size());
    EXPECT_EQ(entry["sha256"], *Sha256Hex(std::as_bytes(std::span(text))));
  }
  // An edited side file is noticed.
  SyntheticCheckpoint::WriteText(target() + "/chat_template.jinja", "{{ y }}");
  auto opened = Checkpoint::Open(target());
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("chat_template.jinja"));
}

TEST_F(PackTest, KnownHashesAreTaken) {
  for (const auto& entry : fs::directory_iterator(source())) {
    options_.known_sha256[entry.path().filename()] = "given";
  }
  options_.progress = [](std::string_view phase, uint64_t, uint64_t) { EXPECT_NE(phase, "hash"); };
  ASSERT_TRUE(Pack(source(), target(), options_));
  const auto manifest = nlohmann::json::parse(io::ReadTestFile(target() + "/manifest.json"));
  EXPECT_EQ(manifest["sources"][0]["sha256"], "given");
}

TEST_F(PackTest, RefusesToOverwriteOrRepack) {
  fs::create_directory(target());
  SyntheticCheckpoint::WriteText(target() + "/precious", "x");
  auto exists = Pack(source(), target(), options_);
  ASSERT_FALSE(exists);
  EXPECT_EQ(exists.error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(fs::exists(target() + "/precious"));
  fs::remove_all(target());
  ASSERT_TRUE(Pack(source(), target(), options_));
  auto again = Pack(target(), directory_ / "other", options_);
  ASSERT_FALSE(again);
  EXPECT_THAT(again.error().message, HasSubstr("packed already"));
}

TEST_F(PackTest, OneAtATime) {
  auto lock = io::FileLock::Acquire(work() + ".lock");
  ASSERT_TRUE(lock);
  auto summary = Pack(source(), target(), options_);
  ASSERT_FALSE(summary);
  EXPECT_EQ(summary.error().code, ErrorCode::kResourceLimit);
}

TEST_F(PackTest, NeedsDiskSpace) {
  options_.free_bytes = [](const std::string&) -> Result<uint64_t> { return 1000; };
  auto summary = Pack(source(), target(), options_);
  ASSERT_FALSE(summary);
  EXPECT_EQ(summary.error().code, ErrorCode::kResourceLimit);
  EXPECT_THAT(summary.error().message, HasSubstr("the disk has 1000"));
  options_.free_bytes = io::FreeBytes;
  Complete();
}

// A disk that fills up in the middle: the file size limit of a process acts like it.
TEST_F(PackTest, FullDiskCanBeResumed) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = 1'500'000, .rlim_max = 1'500'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    auto summary = Pack(source(), target(), options_);
    _exit(!summary && summary.error().code == ErrorCode::kResourceLimit ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(Complete().resumed);
}

TEST_F(PackTest, CancelledAnywhereItResumes) {
  Reference();
  const int calls = PackUntil(1 << 30);
  fs::remove_all(target());
  ASSERT_GT(calls, 50);
  std::mt19937 rng(7);
  for (int round = 0; round < 6; ++round) {
    PackUntil(1 + static_cast<int>(rng() % calls));
    if (round % 3 == 0 && !fs::exists(target())) PackUntil(1 + static_cast<int>(rng() % calls));
    if (fs::exists(target())) fs::remove_all(target());
    Complete();
  }
}

TEST_F(PackTest, KilledAnywhereItResumes) {
  Reference();
  const int calls = PackUntil(1 << 30);
  fs::remove_all(target());
  std::mt19937 rng(8);
  for (int round = 0; round < 6; ++round) {
    KillAfter(1 + static_cast<int>(rng() % calls));
    if (fs::exists(target())) fs::remove_all(target());
    Complete();
  }
}

// What a crash of the machine may leave: anything at all beyond what the journal calls safe.
TEST_F(PackTest, BytesBeyondTheJournalDoNotMatter) {
  Reference();
  const int calls = PackUntil(1 << 30);
  fs::remove_all(target());
  std::mt19937 rng(9);
  for (int round = 0; round < 5; ++round) {
    KillAfter(calls / 4 + static_cast<int>(rng() % (calls / 2)));
    const auto journal = nlohmann::json::parse(io::ReadTestFile(work() + "/journal.json"));
    for (const auto& entry : fs::directory_iterator(work())) {
      const std::string name = entry.path().filename();
      if (!name.ends_with(".bin")) continue;
      const auto& lengths = journal["lengths"];
      const uint64_t safe = lengths.contains(name) ? lengths[name].get<uint64_t>() : 0;
      fs::resize_file(entry.path(), safe);
      if (rng() % 2 == 0) {
        std::ofstream(entry.path(), std::ios::app | std::ios::binary)
            << std::string(rng() % 1'000'000, 'j');
      }
    }
    SyntheticCheckpoint::WriteText(work() + "/journal.json.tmp", "{half a jour");
    EXPECT_TRUE(Complete().resumed);
  }
}

TEST_F(PackTest, DamagedWorkStartsOver) {
  Reference();
  for (const char* damage : {"journal", "short", "version"}) {
    SCOPED_TRACE(damage);
    const int calls = 60;
    PackUntil(calls);
    const std::string journal = work() + "/journal.json";
    if (damage == std::string("journal")) {
      SyntheticCheckpoint::WriteText(journal, "{");
    } else if (damage == std::string("short")) {
      fs::resize_file(work() + "/checksums.bin", 1);
    } else {
      auto json = nlohmann::json::parse(io::ReadTestFile(journal));
      json["version"] = 99;
      SyntheticCheckpoint::WriteText(journal, json.dump());
    }
    const PackSummary summary = Complete();
    EXPECT_FALSE(summary.resumed);
    ASSERT_EQ(summary.notes.size(), 1u);
    EXPECT_THAT(summary.notes[0], HasSubstr("starts over"));
  }
}

TEST_F(PackTest, ChangedSourceStartsOver) {
  PackUntil(60);
  SyntheticCheckpoint(SmallConfig(), /*seed=*/2).Write(source());
  const PackSummary summary = Complete();
  EXPECT_FALSE(summary.resumed);
  ASSERT_EQ(summary.notes.size(), 1u);
  EXPECT_THAT(summary.notes[0], HasSubstr("not those it began with"));
}

// Damage to bytes that were safe is found by reading back, before the name is given.
TEST_F(PackTest, DamagedOutputNeverGetsTheName) {
  PackUntil(100);
  std::fstream file(work() + "/trunk.bin", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(100);
  file.put('!');
  file.close();
  auto summary = Pack(source(), target(), options_);
  ASSERT_FALSE(summary);
  EXPECT_EQ(summary.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(summary.error().message, HasSubstr("trunk.bin"));
  EXPECT_FALSE(fs::exists(target()));
  Complete();
}

}  // namespace
}  // namespace slotstream::checkpoint
