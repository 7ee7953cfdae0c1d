// States that are read while a pass goes on from them: whatever becomes of the reads, of the file
// or of the pass, the layers that are taken are right, and nothing is written to memory that is
// gone.
#include "state/arriving_state.h"

#include <gtest/gtest.h>

#include <atomic>
#include <ctime>
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include "io/faulty_backend.h"
#include "io/test_directory.h"
#include "io/test_held_backend.h"
#include "state/prefix_store.h"
#include "state/test_states.h"

namespace slotstream::state {
namespace {

using Keys = std::vector<PrefixKey>;

class ArrivingStateTest : public ::testing::Test {
 protected:
  // A state of three segments, and a shorter one that has the first two.
  ArrivingStateTest() {
    for (PrefixKey key = 0; key < 700; ++key) keys_.push_back(key * 7 % 1000 + 100);
    Open();
    for (const size_t length : {300, 301, 699}) {
      const Keys part(keys_.begin(), keys_.begin() + static_cast<ptrdiff_t>(length));
      const auto saved = store_->Save(
          {.keys = part, .state = StateOf(config_, part), .replies = {}, .junction = true});
      EXPECT_TRUE(saved && *saved);
    }
  }

  void Open() {
    PrefixStoreOptions options;
    options.directory = scratch_ / "prefixes";
    options.min_tokens = 1;
    options.least_free_bytes = 0;
    options.now = [] { return int64_t{std::time(nullptr)}; };
    options.make_backend = [this](size_t depth) -> Result<std::unique_ptr<io::ReadBackend>> {
      SS_ASSIGN_OR_RETURN(auto backend, io::MakeBackend(io::BackendKind::kThreads, depth, nullptr));
      auto faulty = std::make_unique<io::FaultyBackend>(std::move(backend), faults_, 5);
      if (hand_ == nullptr) return faulty;
      return std::make_unique<io::HeldBackend>(std::move(faulty), *hand_);
    };
    store_.reset();
    store_ = PrefixStore::Open(std::move(options)).value();
  }

  std::unique_ptr<ArrivingState> Start(bool keep = true) {
    auto arriving = store_->StartRestore(keys_, config_, keep);
    EXPECT_TRUE(arriving) << arriving.error().message;
    return std::move(*arriving);
  }
  std::shared_ptr<const Sequence> Expected(size_t length) const {
    return StateOf(config_, std::span(keys_).first(length));
  }

  const checkpoint::ModelConfig config_ = SmallConfig();
  io::TestDirectory scratch_;
  Keys keys_;
  std::vector<io::Fault> faults_;
  io::HeldBackend::Hand* hand_ = nullptr;
  std::unique_ptr<PrefixStore> store_;
};

TEST_F(ArrivingStateTest, AllOfItComes) {
  for (const bool keep : {true, false}) {
    const auto arriving = Start(keep);
    EXPECT_EQ(arriving->length(), 699u);
    EXPECT_FALSE(arriving->complete());
    auto sequence = TakeAll(config_, *arriving);
    ASSERT_TRUE(sequence) << sequence.error().message;
    EXPECT_TRUE(arriving->complete());
    EXPECT_GT(arriving->nanos(), 0u);
    EXPECT_GE(arriving->nanos(), arriving->waited_nanos());
    ExpectEqual(*sequence, *Expected(699));
    ReadKeys(config_, keys_, *sequence);
    ExpectEqual(*sequence, *Expected(700));
    if (keep) {
      const auto whole = arriving->Whole();
      ExpectEqual(*whole, *Expected(699));
      EXPECT_EQ(whole->bytes(), SequenceBytes(config_, 699));
    }
    store_->EndRestore(*arriving);
  }
  EXPECT_EQ(store_->stats().hits, 2u);
  EXPECT_GE(store_->stats().restore_nanos, store_->stats().restore_waited_nanos);
}

// The first layer is there while the rest has not even been read.
TEST_F(ArrivingStateTest, LayersComeOneByOne) {
  io::HeldBackend::Hand hand;
  hand_ = &hand;
  const auto arriving = Start();
  Sequence sequence = arriving->Begin();
  EXPECT_EQ(sequence.length(), 699u);
  EXPECT_TRUE(sequence.linear.empty());
  // Convolution and recurrent state.
  hand.Let(2);
  EXPECT_TRUE(arriving->Take(0, nullptr, sequence));
  EXPECT_EQ(sequence.linear[0].recurrent, Expected(699)->linear[0].recurrent);
  std::atomic<bool> cancel = true;
  const Status status = arriving->Take(1, &cancel, sequence);
  EXPECT_TRUE(!status && status.error().code == ErrorCode::kCancelled);
  EXPECT_TRUE(sequence.attention.empty());
  hand.Let(1000);
  EXPECT_TRUE(arriving->Take(1, nullptr, sequence));
  EXPECT_TRUE(arriving->Take(2, nullptr, sequence));
  ExpectEqual(sequence, *Expected(699));
}

// Memory is written to the end of the reads in flight; it must be there so long.
TEST_F(ArrivingStateTest, GivenUpAtEveryPoint) {
  for (size_t results = 0; results < 24; ++results) {
    io::HeldBackend::Hand hand;
    hand_ = &hand;
    auto arriving = Start();
    hand.Let(results);
    Sequence sequence = arriving->Begin();
    std::atomic<bool> cancel = true;
    for (uint32_t layer = 0; layer < config_.num_layers(); ++layer) {
      if (!arriving->Take(layer, &cancel, sequence)) break;
    }
    std::thread owner([&] {
      std::this_thread::yield();
      hand.Let(1000);
    });
    arriving.reset();
    owner.join();
  }
  EXPECT_EQ(store_->stats().heads, 3u);
  EXPECT_EQ(store_->stats().hits, 0u);
}

// It reads on after the store and its files are gone.
TEST_F(ArrivingStateTest, OutlivesItsFilesAndTheStore) {
  io::HeldBackend::Hand hand;
  hand_ = &hand;
  const auto arriving = Start();
  store_.reset();
  std::filesystem::remove_all(scratch_ / "prefixes");
  hand.Let(1000);
  const auto sequence = TakeAll(config_, *arriving);
  ASSERT_TRUE(sequence);
  ExpectEqual(*sequence, *Expected(699));
}

// Wherever a fault strikes: all layers are right, or a layer says why not, and then the next
// attempt finds a state that can be read, or none.
TEST_F(ArrivingStateTest, EveryFaultOfEveryRead) {
  ASSERT_TRUE(TakeAll(config_, *Start()));
  size_t failed = 0, served = 0, late = 0;
  for (const io::FaultKind kind :
       {io::FaultKind::kShortRead, io::FaultKind::kIoError, io::FaultKind::kLate,
        io::FaultKind::kReordered, io::FaultKind::kFlippedBit, io::FaultKind::kZeroedPage,
        io::FaultKind::kTruncated, io::FaultKind::kDeviceGone, io::FaultKind::kStartRefused}) {
    for (uint64_t read = 0; read < 30; ++read) {
      faults_ = {{.kind = kind, .first_read = read, .count = io::Fault::kEveryLater}};
      const auto arriving = Start();
      faults_.clear();
      Sequence sequence = arriving->Begin();
      uint32_t layer = 0;
      Status status;
      for (; status && layer < config_.num_layers(); ++layer) {
        status = arriving->Take(layer, nullptr, sequence);
      }
      store_->EndRestore(*arriving);
      if (status) {
        ++served;
        ExpectEqual(sequence, *Expected(699));
        continue;
      }
      ++failed;
      late += layer > 1;
      ASSERT_TRUE(arriving->failure());
      EXPECT_EQ(arriving->failure()->message, status.error().message);
      EXPECT_EQ(store_->stats().last_reason, status.error().message);
      // It is gone, the next shorter one is as good as ever.
      if (status.error().code != ErrorCode::kResourceLimit) {
        EXPECT_EQ(store_->Find(keys_)->length, 301u);
      }
      const auto shorter = Start();
      const auto again = TakeAll(config_, *shorter);
      ASSERT_TRUE(again) << again.error().message;
      ExpectEqual(*again, *Expected(shorter->length()));
      const Keys part(keys_.begin(), keys_.end() - 1);
      (void)store_->Save({.keys = part, .state = Expected(699), .replies = {}, .junction = true});
    }
  }
  EXPECT_GT(failed, 80u);
  EXPECT_GT(served, 80u);
  EXPECT_GT(late, 40u);
}

TEST_F(ArrivingStateTest, AStateOfAnotherGeometryIsNone) {
  for (const auto change : {+[](checkpoint::ModelConfig& config) { config.layers.pop_back(); },
                            +[](checkpoint::ModelConfig& config) { config.head_dim *= 2; },
                            +[](checkpoint::ModelConfig& config) { config.ple_layers.clear(); },
                            +[](checkpoint::ModelConfig& config) { config.ngram_size = 2; },
                            +[](checkpoint::ModelConfig& config) { config.linear_key_dim += 1; }}) {
    checkpoint::ModelConfig other = config_;
    change(other);
    const uint64_t damaged = store_->stats().damaged;
    const auto arriving = store_->StartRestore(std::span(keys_).first(301), other, true);
    ASSERT_FALSE(arriving);
    EXPECT_EQ(arriving.error().code, ErrorCode::kCorrupt);
    EXPECT_EQ(store_->stats().damaged, damaged + 1);
    const Keys part(keys_.begin(), keys_.begin() + 300);
    (void)store_->Save({.keys = part, .state = Expected(300), .replies = {}, .junction = true});
  }
}

}  // namespace
}  // namespace slotstream::state
