// Promise P3: whatever a read suffers, the output is the same or a typed error, and the next
// request is right.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <iterator>
#include <random>
#include <vector>

#include "engine/test_support.h"
#include "io/faulty_backend.h"

namespace slotstream::engine {
namespace {

constexpr size_t kTokens = 3;

// Counts its reads where the test can see them after the queue has gone with the backend.
class CountedBackend final : public io::FaultyBackend {
 public:
  CountedBackend(std::unique_ptr<io::ReadBackend> inner, std::vector<io::Fault> faults,
                 std::shared_ptr<uint64_t> count)
      : FaultyBackend(std::move(inner), std::move(faults), /*seed=*/7), count_(std::move(count)) {}
  Status Start(std::span<const io::BackendRead> reads) override {
    *count_ += reads.size();
    return FaultyBackend::Start(reads);
  }

 private:
  std::shared_ptr<uint64_t> count_;
};

// A model all of whose queues have such backends.
struct FaultyModel {
  uint32_t pass_rows = 2;
  std::vector<std::shared_ptr<uint64_t>> reads;  // by queue, in order of making
  std::unique_ptr<LoadedModel> loaded;

  // `struck`-th queue gets `fault`; SIZE_MAX for none.
  Status Load(const std::string& directory, size_t struck, const io::Fault& fault) {
    LoadOptions options;
    options.directory = directory;
    options.wishes = {.slots = {},
                      .pass_rows = pass_rows,
                      .memory_bytes = 1'000'000'000,
                      .max_context = 64,
                      .threads = 1};
    options.make_backend = [&](size_t depth) -> Result<std::unique_ptr<io::ReadBackend>> {
      SS_ASSIGN_OR_RETURN(auto inner, io::MakeBackend(io::BackendKind::kAuto, depth, nullptr));
      std::vector<io::Fault> faults;
      if (reads.size() == struck) faults.push_back(fault);
      reads.push_back(std::make_shared<uint64_t>(0));
      return std::make_unique<CountedBackend>(std::move(inner), std::move(faults), reads.back());
    };
    SS_ASSIGN_OR_RETURN(loaded, LoadForTest(options));
    return {};
  }
};

bool IsTyped(const Error& error) {
  return (error.code == ErrorCode::kIo || error.code == ErrorCode::kCorrupt ||
          error.code == ErrorCode::kResourceLimit) &&
         !error.message.empty();
}

constexpr io::FaultKind kAllFaults[] = {
    io::FaultKind::kShortRead, io::FaultKind::kZeroRead,   io::FaultKind::kInterrupted,
    io::FaultKind::kTryAgain,  io::FaultKind::kIoError,    io::FaultKind::kLate,
    io::FaultKind::kReordered, io::FaultKind::kFlippedBit, io::FaultKind::kZeroedPage,
    io::FaultKind::kTruncated, io::FaultKind::kDeviceGone, io::FaultKind::kStartRefused};

class Faults : public ::testing::TestWithParam<bool> {};

// Once: one read goes wrong. Always: that read and all later ones.
TEST_P(Faults, SameOutputOrTypedErrorAndTheNextRequestIsRight) {
  const bool always = GetParam();
  ScratchDirectory scratch;
  const std::string packed = PackInto(scratch, TinyDirectory());
  FaultyModel clean;
  ASSERT_TRUE(clean.Load(packed, SIZE_MAX, {}));
  const std::vector<uint32_t> ids = TestIds(clean.loaded->config(), kTokens);
  const auto expected = Logits(*clean.loaded, ids, 2, 1);
  ASSERT_TRUE(expected) << expected.error().message;

  size_t failures = 0, survivals = 0;
  for (size_t queue = 0; queue < clean.reads.size(); ++queue) {
    const uint64_t reads = *clean.reads[queue];
    ASSERT_GT(reads, 0u) << "queue " << queue;
    for (uint64_t read = 0; read < reads; ++read) {
      for (io::FaultKind kind : kAllFaults) {
        SCOPED_TRACE(::testing::Message() << "queue " << queue << " read " << read << " fault "
                                          << static_cast<int>(kind));
        FaultyModel model;
        const uint64_t count = always ? io::Fault::kEveryLater : 1;
        const Status loaded =
            model.Load(packed, queue, {.kind = kind, .first_read = read, .count = count});
        if (!loaded) {
          EXPECT_TRUE(IsTyped(loaded.error())) << loaded.error().message;
          ++failures;
          continue;
        }
        const auto logits = Logits(*model.loaded, ids, 2, 1);
        if (logits) {
          ASSERT_EQ(std::memcmp(logits->data(), expected->data(), expected->size() * 4), 0);
          ++survivals;
        } else {
          EXPECT_TRUE(IsTyped(logits.error())) << logits.error().message;
          ++failures;
        }
        const bool lasting =
            always || kind == io::FaultKind::kTruncated || kind == io::FaultKind::kDeviceGone;
        const auto next = Logits(*model.loaded, ids, 2, 1);
        if (next) {
          ASSERT_EQ(std::memcmp(next->data(), expected->data(), expected->size() * 4), 0);
        } else {
          EXPECT_TRUE(lasting) << next.error().message;
          EXPECT_TRUE(IsTyped(next.error())) << next.error().message;
        }
      }
    }
  }
  // Both must have happened, or the faults never struck.
  EXPECT_GT(survivals, 0u);
  EXPECT_GT(failures, 0u);
}

// Passes that sweep and expect the next layer's experts, then tokens that guess them, with faults
// anywhere.
TEST(FaultsAhead, SameOutputOrTypedErrorAndTheNextRequestIsRight) {
  constexpr size_t kPrompt = 40, kSingle = 14;
  ScratchDirectory scratch;
  const std::string packed = PackInto(scratch, TinyDirectory());
  FaultyModel clean{.pass_rows = kPrompt, .reads = {}, .loaded = {}};
  ASSERT_TRUE(clean.Load(packed, SIZE_MAX, {}));
  const std::vector<uint32_t> ids = TestIds(clean.loaded->config(), kPrompt + kSingle);
  const auto run = [&](LoadedModel& loaded) {
    loaded.model().UseLookAhead(model::LookAheadMode::kOn);
    return Logits(loaded, ids, kPrompt, kSingle);
  };
  const auto expected = run(*clean.loaded);
  ASSERT_TRUE(expected) << expected.error().message;
  EXPECT_GT(clean.loaded->experts().stats().read_ahead, 0u);

  // The queue of experts is the first one made.
  std::mt19937 rng(9);
  size_t failures = 0, survivals = 0;
  for (int round = 0; round < 120; ++round) {
    const io::FaultKind kind = kAllFaults[rng() % std::size(kAllFaults)];
    const uint64_t read = rng() % *clean.reads[0];
    SCOPED_TRACE(::testing::Message() << "read " << read << " fault " << static_cast<int>(kind));
    FaultyModel model{.pass_rows = kPrompt, .reads = {}, .loaded = {}};
    ASSERT_TRUE(model.Load(packed, 0, {.kind = kind, .first_read = read, .count = 1 + rng() % 4}));
    for (const bool again : {false, true}) {
      const auto logits = run(*model.loaded);
      if (logits) {
        ASSERT_EQ(std::memcmp(logits->data(), expected->data(), expected->size() * 4), 0);
        ++survivals;
        continue;
      }
      EXPECT_TRUE(IsTyped(logits.error())) << logits.error().message;
      EXPECT_TRUE(!again || kind == io::FaultKind::kTruncated || kind == io::FaultKind::kDeviceGone)
          << logits.error().message;
      ++failures;
    }
  }
  EXPECT_GT(survivals, 0u);
  EXPECT_GT(failures, 0u);
}

INSTANTIATE_TEST_SUITE_P(OnceAndAlways, Faults, ::testing::Bool());

// Cancelled before each of its reads in turn, loading ends and says so.
TEST(Loading, CancelledAtAnyTime) {
  ScratchDirectory scratch;
  const std::string packed = PackInto(scratch, TinyDirectory());
  for (const std::string& directory : {TinyDirectory(), packed}) {
    for (uint64_t at = 0;; ++at) {
      std::atomic<bool> cancel = at == 0;
      uint64_t queues = 0;
      LoadOptions options;
      options.directory = directory;
      options.wishes = {.slots = {},
                        .pass_rows = 2,
                        .memory_bytes = 1'000'000'000,
                        .max_context = 64,
                        .threads = 1};
      options.cancel = &cancel;
      options.make_backend = [&](size_t depth) {
        if (++queues == at) cancel = true;
        return io::MakeBackend(io::BackendKind::kAuto, depth, nullptr);
      };
      const auto loaded = LoadForTest(options);
      if (loaded) {
        EXPECT_LT(queues, at) << "it was cancelled and went on";
        EXPECT_GT(at, 2u);
        break;
      }
      EXPECT_EQ(loaded.error().code, ErrorCode::kCancelled) << loaded.error().message;
    }
  }
}

}  // namespace
}  // namespace slotstream::engine
