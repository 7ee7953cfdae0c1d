#include "state/prefix_store.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "io/test_directory.h"
#include "state/prefix_directory.h"
#include "state/test_states.h"

namespace slotstream::state {
namespace {

namespace fs = std::filesystem;
using Keys = std::vector<PrefixKey>;

const checkpoint::ModelConfig& Config() {
  static const checkpoint::ModelConfig config = SmallConfig();
  return config;
}

Keys Count(size_t count, PrefixKey from = 100) {
  Keys keys(count);
  for (size_t i = 0; i < count; ++i) keys[i] = from + i;
  return keys;
}

Keys Plus(Keys keys, size_t count, PrefixKey from) {
  for (size_t i = 0; i < count; ++i) keys.push_back(from + i);
  return keys;
}

class PrefixStoreTest : public ::testing::Test {
 protected:
  PrefixStoreOptions Options() {
    PrefixStoreOptions options;
    options.directory = scratch_ / "prefixes";
    options.quota_bytes = quota_;
    options.min_tokens = 8;
    options.max_age_seconds = 1000;
    options.least_free_bytes = 0;
    options.identity.fill(std::byte{identity_});
    options.now = [this] { return now_; };
    return options;
  }
  std::unique_ptr<PrefixStore> Open() {
    auto store = PrefixStore::Open(Options());
    EXPECT_TRUE(store) << store.error().message;
    return std::move(*store);
  }
  static PrefixStore::Saving Saving(const Keys& keys, uint64_t turn = 1, bool junction = false) {
    return {.keys = keys,
            .state = StateOf(Config(), keys),
            .replies = {{.begin = 1, .end = 3, .digest = {.said = {4, 5}, .reasoning = 6}}},
            .junction = junction,
            .turn = turn,
            .least_new = 0};
  }
  bool Save(PrefixStore& store, const Keys& keys, uint64_t turn = 1, bool junction = false) {
    const auto saved = store.Save(Saving(keys, turn, junction));
    EXPECT_TRUE(saved) << saved.error().message;
    return saved.value_or(false);
  }
  // The length that is found for `keys`, after its state was read and compared.
  size_t Restored(PrefixStore& store, const Keys& keys) {
    const auto found = store.Find(keys);
    if (!found) return 0;
    const auto arriving = store.StartRestore(keys, Config(), /*keep=*/true);
    if (!arriving) return 0;
    auto sequence = TakeAll(Config(), **arriving);
    store.EndRestore(**arriving);
    if (!sequence) return 0;
    EXPECT_EQ(sequence->length(), found->length);
    const auto expected = StateOf(Config(), std::span(keys).first(found->length));
    ExpectEqual(*sequence, *expected);
    // It goes on like any other, and what was stored stays as it was.
    ReadKeys(Config(), keys, *sequence);
    ExpectEqual(*sequence, *StateOf(Config(), keys));
    ExpectEqual(*(*arriving)->Whole(), *expected);
    return found->length;
  }
  std::vector<std::string> Files(std::string_view suffix) {
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(scratch_ / "prefixes")) {
      if (entry.path().string().ends_with(suffix)) files.push_back(entry.path());
    }
    std::ranges::sort(files);
    return files;
  }
  uint64_t BytesOnDisk() {
    uint64_t bytes = 0;
    for (const char* suffix : {".head", ".rows", ".part"}) {
      for (const std::string& file : Files(suffix)) bytes += fs::file_size(file);
    }
    return bytes;
  }

  io::TestDirectory scratch_;
  uint64_t quota_ = 100'000'000;
  uint8_t identity_ = 1;
  int64_t now_ = time(nullptr);
};

TEST_F(PrefixStoreTest, WhatIsSavedIsRestored) {
  const Keys prompt = Count(700);
  auto store = Open();
  EXPECT_FALSE(Save(*store, Count(7)));  // too short
  EXPECT_TRUE(Save(*store, prompt, 3));
  EXPECT_FALSE(Save(*store, prompt, 3));
  EXPECT_EQ(Restored(*store, prompt), 0u);  // nothing would be left to read
  EXPECT_EQ(Restored(*store, Plus(prompt, 1, 5)), 700u);
  EXPECT_EQ(Restored(*store, Count(650)), 0u);
  store.reset();
  store = Open();
  EXPECT_EQ(Restored(*store, Plus(prompt, 1, 5)), 700u);
  const auto found = store->Find(Plus(prompt, 1, 5));
  EXPECT_EQ(found->turn, 3u);
  EXPECT_EQ(found->replies, Saving(prompt).replies);
  EXPECT_EQ(store->stats().bytes, BytesOnDisk());
}

TEST_F(PrefixStoreTest, ATurnWritesOnlyItsRows) {
  auto store = Open();
  Keys keys = Count(3000);
  Save(*store, keys, 1);
  const uint64_t whole = store->stats().last_save_bytes;
  for (uint64_t turn = 2; turn < 12; ++turn) {
    keys = Plus(keys, 10, 5000 * turn);
    EXPECT_TRUE(Save(*store, keys, turn));
    EXPECT_LT(store->stats().last_save_bytes, whole / 5);
    EXPECT_EQ(Restored(*store, Plus(keys, 1, 1)), keys.size());
  }
  // The last two states stay.
  EXPECT_EQ(Files(".head").size(), 2u);
  EXPECT_EQ(store->stats().bytes, BytesOnDisk());
}

TEST_F(PrefixStoreTest, ManySegmentsBecomeOne) {
  auto store = Open();
  Keys keys = Count(20);
  for (uint64_t turn = 1; turn <= 70; ++turn) {
    Save(*store, keys, turn);
    keys = Plus(keys, 3, 5000 * turn);
  }
  EXPECT_EQ(Restored(*store, keys), keys.size() - 3);
  EXPECT_LE(Files(".rows").size(), 70u);
  EXPECT_EQ(store->stats().bytes, BytesOnDisk());
}

TEST_F(PrefixStoreTest, ConversationsShareTheRowsOfTheirBeginning) {
  auto store = Open();
  const Keys system = Count(2000);
  Save(*store, system, 1, true);
  Save(*store, Plus(system, 50, 10'000), 1);
  const uint64_t own = store->stats().last_save_bytes;
  Save(*store, Plus(system, 50, 20'000), 1);
  EXPECT_EQ(store->stats().last_save_bytes, own);
  EXPECT_EQ(Files(".rows").size(), 3u);
  EXPECT_EQ(Restored(*store, Plus(system, 51, 20'000)), 2050u);
  EXPECT_EQ(Restored(*store, Plus(system, 51, 30'000)), 2000u);
}

TEST_F(PrefixStoreTest, RowsThatALongerStateKeptServeAgain) {
  auto store = Open();
  const Keys one = Count(500), two = Plus(one, 50, 10'000), three = Plus(two, 50, 20'000);
  Save(*store, one, 1);
  Save(*store, two, 2);
  Save(*store, three, 3);  // drops `one`, whose rows stay
  EXPECT_EQ(Files(".head").size(), 2u);
  Save(*store, one, 1);
  EXPECT_EQ(Restored(*store, Plus(one, 1, 1)), 500u);
  EXPECT_EQ(store->stats().bytes, BytesOnDisk());
}

TEST_F(PrefixStoreTest, NearStatesAreNotWorthAWrite) {
  auto store = Open();
  Save(*store, Count(300));
  PrefixStore::Saving next = Saving(Count(340), 2);
  next.least_new = 64;
  EXPECT_FALSE(*store->Save(next));
  next.least_new = 40;
  EXPECT_TRUE(*store->Save(next));
}

TEST_F(PrefixStoreTest, TheQuotaHoldsAndClassesDecide) {
  auto store = Open();
  const Keys shared = Count(1000);
  Save(*store, shared, 1, true);
  Keys chat = Plus(shared, 100, 50'000);
  Save(*store, chat, 5);
  const uint64_t room = store->stats().bytes;
  store.reset();
  quota_ = room + 150'000;
  store = Open();
  for (size_t i = 0; i < 40; ++i) {
    ++now_;
    Save(*store, Count(300, 1'000'000 + 1000 * i), 1);
    ASSERT_LE(BytesOnDisk(), quota_);
    ASSERT_EQ(store->stats().bytes, BytesOnDisk());
  }
  EXPECT_GT(store->stats().evicted, 20u);
  EXPECT_EQ(Restored(*store, Plus(chat, 1, 1)), chat.size());
  EXPECT_EQ(Restored(*store, Plus(shared, 1, 1)), shared.size());
  // What can't fit is refused, with a reason.
  const auto large = store->Save(Saving(Count(9000, 7)));
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code, ErrorCode::kResourceLimit);
  EXPECT_EQ(store->stats().last_reason, large.error().message);
  store.reset();
  quota_ = 10;
  EXPECT_EQ(Open()->stats().heads, 0u);
  EXPECT_EQ(BytesOnDisk(), 0u);
}

TEST_F(PrefixStoreTest, WhatIsUnusedForLongGoesAndClocksMayJump) {
  auto store = Open();
  Save(*store, Count(100));
  Save(*store, Count(100, 9000));
  store.reset();
  // Files have the system's time; ours is far ahead of it, then far behind.
  now_ += 10'000;
  store = Open();
  EXPECT_EQ(store->stats().heads, 0u);
  Save(*store, Count(100));
  store.reset();
  now_ = 1000;
  store = Open();
  EXPECT_EQ(Restored(*store, Count(101)), 100u);
  now_ = 5000;
  Save(*store, Count(100, 9000));
  EXPECT_EQ(store->stats().heads, 1u);
  EXPECT_EQ(Restored(*store, Count(101)), 0u);
}

TEST_F(PrefixStoreTest, OtherModelsStatesAreNotOursAndGoFirst) {
  auto store = Open();
  Save(*store, Count(500));
  store.reset();
  identity_ = 2;
  store = Open();
  EXPECT_EQ(Restored(*store, Count(501)), 0u);
  EXPECT_EQ(store->stats().bytes, BytesOnDisk());
  Save(*store, Count(500));
  EXPECT_EQ(Restored(*store, Count(501)), 500u);
  EXPECT_EQ(Files(".head").size(), 2u);
  store.reset();
  quota_ = BytesOnDisk() - 1;
  store = Open();
  EXPECT_EQ(Restored(*store, Count(501)), 500u);
  EXPECT_LT(Files(".head").size() + Files(".rows").size(), 4u);
  EXPECT_EQ(store->stats().bytes, BytesOnDisk());
}

TEST_F(PrefixStoreTest, OneProcessAtATime) {
  const auto store = Open();
  const auto second = PrefixStore::Open(Options());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kResourceLimit);
  EXPECT_FALSE(ClearPrefixes(scratch_ / "prefixes"));
}

TEST_F(PrefixStoreTest, WhereNothingCanBeWritten) {
  io::WriteTestFile(scratch_ / "prefixes", io::Bytes("a file"));
  const auto store = PrefixStore::Open(Options());
  ASSERT_FALSE(store);
  EXPECT_NE(store.error().message.find(scratch_ / "prefixes"), std::string::npos);
}

TEST_F(PrefixStoreTest, AFullDisk) {
  PrefixStoreOptions options = Options();
  options.least_free_bytes = uint64_t{1} << 60;
  const auto store = PrefixStore::Open(options);
  ASSERT_TRUE(store);
  const auto saved = (*store)->Save(Saving(Count(100)));
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().code, ErrorCode::kResourceLimit);
  EXPECT_EQ((*store)->stats().last_reason, saved.error().message);
  EXPECT_EQ(BytesOnDisk(), 0u);
}

// The directory goes away under the store: every call fails, and none of them does harm.
TEST_F(PrefixStoreTest, ADirectoryThatVanishes) {
  auto store = Open();
  Save(*store, Count(100));
  fs::remove_all(scratch_ / "prefixes");
  EXPECT_FALSE(store->Save(Saving(Count(200))));
  EXPECT_FALSE(store->StartRestore(Count(101), Config(), true));
  EXPECT_EQ(store->stats().heads, 0u);
  EXPECT_NE(store->stats().last_reason, "");
}

TEST_F(PrefixStoreTest, ForeignFilesStay) {
  Open();
  for (const char* name : {"notes.txt", "x.head", "0123456789abcdef0123456789abcdeg.rows"}) {
    io::WriteTestFile(scratch_ / "prefixes" + "/" + name, io::Bytes("mine"));
  }
  const std::string broken = scratch_ / "prefixes" + "/0123456789abcdef0123456789abcdef";
  io::WriteTestFile(broken + ".head", io::Bytes("not a head"));
  io::WriteTestFile(broken + ".rows", io::Bytes(""));
  io::WriteTestFile(broken + ".head.part", io::Bytes("half"));
  auto store = Open();
  EXPECT_EQ(store->stats().damaged, 2u);
  EXPECT_NE(store->stats().last_reason, "");
  Save(*store, Count(100));
  store.reset();
  const auto list = ListPrefixes(scratch_ / "prefixes");
  ASSERT_TRUE(list);
  EXPECT_EQ(list->size(), 2u);
  EXPECT_TRUE(ClearPrefixes(scratch_ / "prefixes"));
  EXPECT_EQ(BytesOnDisk(), 4u + 4u);
  EXPECT_EQ(io::ReadTestFile(scratch_ / "prefixes" + "/notes.txt"), "mine");
}

// Whatever byte is flipped, and wherever a file ends too early: the right state or none.
TEST_F(PrefixStoreTest, DamagedFilesGiveNoState) {
  const Keys one = Count(300), two = Plus(one, 20, 5000);
  std::map<std::string, std::string> sound;
  {
    auto store = Open();
    Save(*store, one, 1);
    Save(*store, two, 2);
  }
  for (const char* suffix : {".head", ".rows"}) {
    for (const std::string& file : Files(suffix)) sound[file] = io::ReadTestFile(file);
  }
  ASSERT_EQ(sound.size(), 4u);
  std::mt19937 rng(5);
  size_t refused = 0;
  for (int round = 0; round < 150; ++round) {
    for (const char* suffix : {".head", ".rows"}) {
      for (const std::string& file : Files(suffix)) fs::remove(file);
    }
    for (const auto& [file, bytes] : sound) io::WriteTestFile(file, io::Bytes(bytes));
    auto victim = sound.begin();
    std::advance(victim, rng() % sound.size());
    std::string bytes = victim->second;
    // Half of them in the first bytes, where the structure is.
    const size_t at = rng() % (rng() % 2 == 0 ? bytes.size() : std::min<size_t>(bytes.size(), 400));
    if (at >= 8 && at < 12) continue;  // the version: a file of another program, not a damaged one
    if (round % 5 == 0) {
      bytes.resize(at);
    } else {
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << rng() % 8));
    }
    const bool late = round % 2 == 0;  // it breaks while the store is open
    std::unique_ptr<PrefixStore> store;
    if (late) store = Open();
    io::WriteTestFile(victim->first, io::Bytes(bytes));
    if (!late) store = Open();
    const size_t length = Restored(*store, Plus(two, 1, 1));
    refused += length != two.size();
    if (length != two.size()) {
      EXPECT_GT(store->stats().damaged, 0u) << victim->first << " " << at;
    }
    const size_t left = Restored(*store, Plus(two, 1, 1));
    EXPECT_TRUE(left == 0 || left == one.size() || left == two.size());
    EXPECT_TRUE(Save(*store, Plus(two, 9, 1), 3));
    EXPECT_EQ(Restored(*store, Plus(two, 10, 1)), two.size() + 9);
  }
  EXPECT_GT(refused, 75u);
}

// Random conversations, evictions and restarts: whatever is found is right, and the store knows
// what the directory holds.
TEST_F(PrefixStoreTest, ManyRandomSteps) {
  std::mt19937 rng(9);
  quota_ = 400'000;
  auto store = Open();
  std::vector<std::pair<Keys, uint64_t>> histories = {{{}, 0}};
  size_t found = 0;
  for (int step = 0; step < 300; ++step) {
    auto [keys, turn] = histories[rng() % histories.size()];
    if (rng() % 4 == 0) keys.resize(rng() % (keys.size() + 1));
    for (size_t more = 1 + rng() % 80; more > 0; --more) keys.push_back(rng() % 4);
    if (keys.size() > 900) keys.resize(50);
    found += Restored(*store, keys) > 0;
    ++now_;
    (void)store->Save(Saving(keys, turn + 1, rng() % 6 == 0));
    ASSERT_EQ(store->stats().bytes, BytesOnDisk()) << step;
    ASSERT_LE(store->stats().bytes, quota_);
    histories.emplace_back(std::move(keys), turn + 1);
    if (histories.size() > 12) histories.erase(histories.begin() + rng() % histories.size());
    if (rng() % 20 == 0) {
      store.reset();
      store = Open();
      ASSERT_EQ(store->stats().bytes, BytesOnDisk()) << step;
      ASSERT_EQ(store->stats().damaged, 0u);
    }
  }
  EXPECT_GT(found, 75u);
}

// What a child that is killed at a random instant leaves is whole or absent.
TEST_F(PrefixStoreTest, KilledAtRandomInstants) {
  quota_ = 300'000;
  std::mt19937 rng(13);
  std::vector<Keys> asked;
  for (size_t c = 0; c < 4; ++c) {
    Keys keys = Count(200, 10'000 * (c + 1));
    for (size_t turn = 0; turn < 8; ++turn) keys = Plus(keys, 30, 1000 * turn);
    asked.push_back(std::move(keys));
  }
  size_t restored = 0;
  for (int round = 0; round < 300; ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      auto store = PrefixStore::Open(Options());
      if (!store) _exit(1);
      for (size_t i = static_cast<size_t>(round);; ++i) {
        const Keys& keys = asked[i % asked.size()];
        const size_t turn = i / asked.size() % 8;
        const Keys part(keys.begin(), keys.begin() + static_cast<ptrdiff_t>(200 + 30 * turn));
        (void)(*store)->Save(Saving(part, turn + 1, i % 7 == 0));
      }
    }
    usleep(rng() % 15'000);
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    const auto store = Open();
    ASSERT_EQ(store->stats().damaged, 0u) << store->stats().last_reason;
    ASSERT_EQ(Files(".part").size(), 0u);
    ASSERT_LE(BytesOnDisk(), quota_);
    ASSERT_EQ(store->stats().bytes, BytesOnDisk());
    for (const Keys& keys : asked) restored += Restored(*store, Plus(keys, 1, 1)) > 0;
    ASSERT_EQ(store->stats().damaged, 0u) << store->stats().last_reason;
  }
  EXPECT_GT(restored, 100u);
}

}  // namespace
}  // namespace slotstream::state
