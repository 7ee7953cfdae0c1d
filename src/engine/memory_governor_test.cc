// A reply while the machine's memory comes and goes: other sizes, the same bytes.
#include "engine/memory_governor.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/test_support.h"

namespace slotstream::engine {
namespace {

// Every look at it moves time on, so that half a minute of quiet is soon over.
class HastyClock final : public Clock {
 public:
  uint64_t NowNanos() const override { return now_.fetch_add(1'000'000'000); }

 private:
  mutable std::atomic<uint64_t> now_ = 1;
};

class GovernorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    packed_ = PackInto(scratch_, MiniatureDirectory());
    std::filesystem::create_directories(scratch_.Path("proc"));
    SetAvailable(4'000'000);
  }
  void SetAvailable(uint64_t kilobytes) {
    std::ofstream(scratch_.Path("proc/meminfo"))
        << "MemTotal: 16000000 kB\nMemAvailable: " << kilobytes << " kB\n";
  }
  LoadOptions Options() const {
    LoadOptions options;
    options.directory = packed_;
    options.system_root = scratch_.Path("");
    options.wishes.memory_bytes = 120'000'000;
    options.wishes.threads = 2;
    options.wishes.pass_rows = 16;
    return options;
  }
  // The tokens of a reply of 120 tokens; `at` is called before the events of each.
  std::vector<uint32_t> Reply(const LoadOptions& options, const std::function<void(size_t)>& at) {
    auto loaded = LoadForTest(options);
    EXPECT_TRUE(loaded) << loaded.error().message;
    if (!loaded) return {};
    const HastyClock clock;
    log_.clear();
    Engine engine(std::move(*loaded),
                  {.log = [this](std::string_view line) { log_.emplace_back(line); },
                   .system_root = options.system_root,
                   .clock = &clock});
    Request request;
    request.ids = TestIds(engine.loaded().config(), 40);
    // Hot enough that no reply ends by itself.
    request.sampling.temperature = 5;
    request.sampling.top_p = 1;
    request.sampling.top_k = 0;
    request.sampling.seed = 1;
    request.sampling.max_tokens = 120;
    RequestObserver observer;
    size_t tokens = 0;
    observer.generation.on_event = [&](const generate::ReplyEvent&) { at(tokens++); };
    const auto result = engine.Submit(std::move(request), observer)->Wait();
    EXPECT_TRUE(result) << result.error().message;
    stats_ = engine.loaded().resize_stats();
    slots_ = engine.loaded().cache_sizes().slots;
    prefix_budget_ = engine.prefixes().budget();
    prefix_states_ = engine.prefixes().stats().entries;
    return result ? result->output : std::vector<uint32_t>{};
  }

  ScratchDirectory scratch_;
  std::string packed_;
  std::vector<std::string> log_;
  LoadedModel::ResizeStats stats_;
  uint32_t slots_ = 0;
  uint64_t prefix_budget_ = 0;
  uint64_t prefix_states_ = 0;
};

TEST_F(GovernorTest, SizesChangeAndBytesDoNot) {
  const std::vector<uint32_t> undisturbed = Reply(Options(), [](size_t) {});
  ASSERT_FALSE(undisturbed.empty());
  EXPECT_EQ(stats_.shrinks + stats_.grows, 0u);
  const uint32_t planned = slots_;
  const std::vector<uint32_t> disturbed = Reply(Options(), [&](size_t token) {
    if (token == 5) SetAvailable(100'000);
    if (token == 25) SetAvailable(6'000'000);
  });
  EXPECT_EQ(disturbed, undisturbed);
  EXPECT_GT(stats_.shrinks, 0u);
  EXPECT_GT(stats_.grows, 0u);
  EXPECT_LT(stats_.least_slots, planned);
  EXPECT_FALSE(log_.empty());
}

// A line for each time that memory is given back, one a minute for what grows; none says that
// something is as it was.
TEST_F(GovernorTest, GrowthIsToldSummedUp) {
  LoadOptions options = Options();
  Reply(options, [&](size_t token) {
    if (token == 5) SetAvailable(100'000);
    if (token == 25) SetAvailable(6'000'000);
  });
  size_t shrinking = 0, growing = 0;
  uint32_t slots = 0;
  for (const std::string& line : log_) {
    const size_t at = line.find(" expert slots (were ");
    if (at == std::string::npos) continue;
    const uint32_t is = static_cast<uint32_t>(std::stoul(line.substr(line.rfind(' ', at - 1) + 1)));
    const uint32_t was = static_cast<uint32_t>(std::stoul(line.substr(at + 20)));
    EXPECT_NE(is, was) << line;
    if (slots != 0) EXPECT_EQ(was, slots) << "a change was not told before " << line;
    ++(is < was ? shrinking : growing);
    slots = is;
  }
  EXPECT_EQ(shrinking, stats_.shrinks);
  EXPECT_GT(growing, 0u);
  EXPECT_LT(4 * growing, stats_.grows);
}

TEST_F(GovernorTest, ThePrefixCacheGivesWay) {
  LoadOptions options = Options();
  options.wishes.memory_bytes = 200'000'000;
  options.wishes.prefix_cache_bytes = 60'000'000;
  const std::vector<uint32_t> undisturbed = Reply(options, [](size_t) {});
  EXPECT_GT(prefix_states_, 0u);
  EXPECT_EQ(prefix_budget_, 60'000'000u);
  const std::vector<uint32_t> disturbed = Reply(options, [&](size_t token) {
    if (token == 5) SetAvailable(100);
  });
  EXPECT_EQ(disturbed, undisturbed);
  EXPECT_EQ(prefix_budget_, 0u);
  EXPECT_EQ(prefix_states_, 0u);
  ASSERT_FALSE(log_.empty());
  EXPECT_NE(log_[0].find("0 bytes for the prefix cache (were 60.0 MB)"), std::string::npos)
      << log_[0];
  // Where the pool has grown back it has its memory again.
  SetAvailable(4'000'000);
  Reply(options, [&](size_t token) {
    if (token == 5) SetAvailable(100);
    if (token == 8) SetAvailable(6'000'000);
  });
  EXPECT_GT(prefix_budget_, 0u);
}

TEST_F(GovernorTest, FixedPins) {
  LoadOptions options = Options();
  options.wishes.fixed = true;
  Reply(options, [&](size_t token) {
    if (token == 5) SetAvailable(100);
  });
  EXPECT_EQ(stats_.shrinks, 0u);
  EXPECT_TRUE(log_.empty());
}

TEST_F(GovernorTest, SlotsThatWereAskedForStay) {
  LoadOptions options = Options();
  options.wishes.slots = 100;
  Reply(options, [&](size_t token) {
    if (token == 5) SetAvailable(100);
  });
  EXPECT_EQ(slots_, 100u);
  EXPECT_EQ(stats_.shrinks, 0u);
}

}  // namespace
}  // namespace slotstream::engine
