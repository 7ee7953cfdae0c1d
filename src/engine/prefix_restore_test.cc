// A state on disk is read while the first pass goes on from it: whatever happens to the reads, the
// reply is a cold run's, and nothing of the state stays where it should not.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "engine/prefix_reuse.h"
#include "engine/prefix_test_support.h"
#include "io/faulty_backend.h"
#include "io/test_held_backend.h"

namespace slotstream::engine {
namespace {

// All that a client can see of the bits.
struct Seen {
  std::vector<uint32_t> output;
  std::vector<uint32_t> log_probs;  // bits of the chosen tokens' and their alternatives'
  size_t cached = 0;
  std::string note;
};

class PrefixRestoreTest : public ::testing::Test {
 protected:
  // Two turns on disk, each with rows of its own, and a third to ask.
  PrefixRestoreTest() {
    PrefixDiskOptions disk = Disk(scratch_.Path("prefixes"), 64);
    disk.pace.least = 1;
    disk.make_backend = [this](size_t depth) { return MakeBackend(depth); };
    engine_ = MakeEngine(kCacheBytes, disk);
    SaveTurns();
    third_ = Ask(messages_, 4);
    third_.alternatives = 5;
    third_.keep_off_disk = true;
    Request same = third_;
    same.ids = engine_->Encode(third_).value().ids;
    const auto cold_engine = MakeEngine(0);
    cold_ = See(*cold_engine, same);
    EXPECT_EQ(cold_.cached, 0u);
  }

  Result<std::unique_ptr<io::ReadBackend>> MakeBackend(size_t depth) {
    ++restores_;
    SS_ASSIGN_OR_RETURN(auto backend, io::MakeBackend(io::BackendKind::kThreads, depth, nullptr));
    if (!backend_error_.empty()) return Fail(ErrorCode::kResourceLimit, backend_error_);
    auto faulty =
        std::make_unique<io::FaultyBackend>(std::move(backend), std::exchange(faults_, {}), 3);
    if (hand_ == nullptr) return faulty;
    return std::make_unique<io::HeldBackend>(std::move(faulty), *hand_);
  }

  void SaveTurns() {
    messages_ = {Message(text::Role::kUser, LongText(200))};
    for (const size_t words : {150, 100}) {
      const Outcome turn = RunRequest(*engine_, Ask(messages_, 4));
      lengths_.push_back(turn.result->prompt_tokens + turn.result->output.size() - 1);
      messages_.push_back(turn.reply);
      messages_.push_back(Message(text::Role::kUser, LongText(words)));
      engine_->prefixes().FlushDisk();
    }
  }

  void EmptyMemory() {
    engine_->prefixes().SetBudget(0);
    engine_->prefixes().SetBudget(kCacheBytes);
    ASSERT_EQ(engine_->prefixes().stats().entries, 0u);
  }

  static Seen See(Engine& engine, const Request& request) {
    Seen seen;
    RequestObserver observer;
    observer.generation.on_token = [&](const generate::ChosenToken& token) {
      seen.log_probs.push_back(std::bit_cast<uint32_t>(token.chosen.log_prob));
      for (const generate::TokenLogProb& other : token.best) {
        seen.log_probs.push_back(other.id);
        seen.log_probs.push_back(std::bit_cast<uint32_t>(other.log_prob));
      }
    };
    const auto result = engine.Submit(request, std::move(observer))->Wait();
    EXPECT_TRUE(result) << result.error().message;
    if (!result) return seen;
    seen.output = result->output;
    seen.cached = result->cached_tokens;
    seen.note = result->prefix_note;
    return seen;
  }

  void ExpectAsCold(const Seen& seen) const {
    EXPECT_EQ(seen.output, cold_.output) << seen.note;
    EXPECT_EQ(seen.log_probs, cold_.log_probs) << seen.note;
    EXPECT_FALSE(seen.log_probs.empty());
  }

  ScratchDirectory scratch_;
  std::vector<io::Fault> faults_;  // of the next restore alone
  io::HeldBackend::Hand* hand_ = nullptr;
  std::string backend_error_;
  std::atomic<int> restores_ = 0;
  std::vector<text::ChatMessage> messages_;
  std::vector<size_t> lengths_;
  Request third_;
  Seen cold_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(PrefixRestoreTest, TheBitsAreAColdRuns) {
  EmptyMemory();
  const Seen restored = See(*engine_, third_);
  EXPECT_EQ(restored.cached, lengths_[1]) << restored.note;
  EXPECT_TRUE(restored.note.starts_with("disk, turn 3, read in ")) << restored.note;
  ExpectAsCold(restored);
  // What was read is in memory now, as it was stored.
  Request edited = third_;
  edited.chat->messages.back() = Message(text::Role::kUser, "Tell me of an owl.");
  const Seen other = See(*engine_, edited);
  EXPECT_EQ(other.cached, lengths_[1]) << other.note;
  EXPECT_TRUE(other.note.starts_with("memory")) << other.note;
  const auto disk = *engine_->prefixes().disk_stats();
  EXPECT_EQ(disk.hits, 1u);
  EXPECT_GT(disk.restore_nanos, 0u);
  EXPECT_GE(disk.restore_nanos, disk.restore_waited_nanos);
}

// A fault that does not go away, in every read in turn: layers before it were computed in vain.
TEST_F(PrefixRestoreTest, EveryReadFails) {
  size_t served = 0;
  for (const io::FaultKind kind : {io::FaultKind::kIoError, io::FaultKind::kFlippedBit}) {
    for (uint64_t read = 0;; ++read) {
      EmptyMemory();
      faults_ = {{.kind = kind, .first_read = read, .count = io::Fault::kEveryLater}};
      const Seen seen = See(*engine_, third_);
      ExpectAsCold(seen);
      const bool last = !seen.note.starts_with("disk failed");
      if (last) {
        EXPECT_EQ(seen.cached, lengths_[1]);
        EXPECT_GT(read, 10u);
        break;
      }
      // The turn before, whose files are others or whose pieces are read again.
      EXPECT_EQ(seen.cached, lengths_[0]) << seen.note;
      EXPECT_NE(seen.note.find("; disk, turn 2, read in"), std::string::npos) << seen.note;
      ++served;
      EXPECT_GT(engine_->prefixes().disk_stats()->last_reason.size(), 20u);
      // Both turns as before, for the next fault.
      RunRequest(*engine_, Ask({messages_.begin(), messages_.begin() + 3}, 4));
      engine_->prefixes().FlushDisk();
    }
  }
  EXPECT_GT(served, 40u);
}

// A transfer that goes wrong once is nobody's matter.
TEST_F(PrefixRestoreTest, AFaultThatGoesAwayIsRepaired) {
  for (const io::FaultKind kind :
       {io::FaultKind::kIoError, io::FaultKind::kFlippedBit, io::FaultKind::kShortRead,
        io::FaultKind::kZeroedPage, io::FaultKind::kLate, io::FaultKind::kReordered}) {
    EmptyMemory();
    faults_ = {{.kind = kind, .first_read = 5}};
    const Seen seen = See(*engine_, third_);
    EXPECT_EQ(seen.cached, lengths_[1]) << seen.note;
    EXPECT_TRUE(seen.note.starts_with("disk, turn 3")) << seen.note;
    ExpectAsCold(seen);
  }
}

TEST_F(PrefixRestoreTest, NothingOnDiskCanBeRead) {
  EmptyMemory();
  backend_error_ = "no rings left";
  const Seen seen = See(*engine_, third_);
  EXPECT_EQ(seen.cached, 0u);
  EXPECT_TRUE(seen.note.starts_with("disk failed (no rings left); none")) << seen.note;
  ExpectAsCold(seen);
  // The files are as good as before.
  EmptyMemory();
  backend_error_.clear();
  EXPECT_EQ(See(*engine_, third_).cached, lengths_[1]);
}

TEST_F(PrefixRestoreTest, ACancelInMidRestore) {
  for (const size_t results : {0, 1, 5, 11}) {
    EmptyMemory();
    const uint64_t bytes = engine_->prefixes().stats().bytes;
    io::HeldBackend::Hand hand;
    hand_ = &hand;
    const int before = restores_;
    const auto job = engine_->Submit(third_, {});
    while (restores_ == before) std::this_thread::yield();
    hand.Let(results);
    // It is counted from its first read on.
    EXPECT_GE(engine_->prefixes().stats().bytes,
              state::SequenceBytes(engine_->loaded().config(), lengths_[1]));
    job->Cancel();
    std::thread disk([&] {
      std::this_thread::yield();
      hand.Let(1000);
    });
    const auto result = job->Wait();
    disk.join();
    hand_ = nullptr;
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::kCancelled);
    EXPECT_EQ(engine_->prefixes().stats().bytes, bytes);
    const Seen seen = See(*engine_, third_);
    EXPECT_EQ(seen.cached, lengths_[1]) << seen.note;
    ExpectAsCold(seen);
  }
}

TEST_F(PrefixRestoreTest, AShutdownInMidRestore) {
  EmptyMemory();
  io::HeldBackend::Hand hand;
  hand_ = &hand;
  const int before = restores_;
  const auto job = engine_->Submit(third_, {});
  while (restores_ == before) std::this_thread::yield();
  std::thread disk([&] {
    std::this_thread::yield();
    hand.Let(1000);
  });
  engine_.reset();
  disk.join();
  const auto result = job->Wait();
  // It was cancelled, unless the disk was quicker.
  EXPECT_TRUE(result || result.error().code == ErrorCode::kCancelled);
}

// It goes straight into the request's sequence, and is not kept.
TEST_F(PrefixRestoreTest, AStateLargerThanTheCache) {
  messages_ = {Message(text::Role::kUser, LongText(1500))};
  const Outcome first = RunRequest(*engine_, Ask(messages_, 4));
  messages_.push_back(first.reply);
  messages_.push_back(Message(text::Role::kUser, LongText(80)));
  engine_->prefixes().FlushDisk();
  Request next = Ask(messages_, 4);
  next.keep_off_disk = true;
  Request same = next;
  same.ids = engine_->Encode(next).value().ids;
  const Outcome cold = RunRequest(*MakeEngine(0), same);
  uint64_t budget = 0;
  const auto& config = engine_->loaded().config();
  while (SharePrefixMemory(budget, config).states == 0) budget += 100'000;
  ASSERT_LT(SharePrefixMemory(budget, config).states, state::SequenceBytes(config, 1500));
  engine_->prefixes().SetBudget(budget);
  const Outcome restored = RunRequest(*engine_, next);
  EXPECT_EQ(restored.result->cached_tokens,
            first.result->prompt_tokens + first.result->output.size() - 1)
      << restored.result->prefix_note;
  EXPECT_EQ(restored.result->output, cold.result->output);
  EXPECT_LE(engine_->prefixes().stats().bytes, SharePrefixMemory(budget, config).states);
}

}  // namespace
}  // namespace slotstream::engine
