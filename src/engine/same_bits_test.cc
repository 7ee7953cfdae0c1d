// Promise P1: the bits depend on nothing but the model, the ids and the compute mode.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <map>
#include <span>
#include <string>

#include "engine/test_support.h"

namespace slotstream::engine {
namespace {

constexpr size_t kTokens = 330;  // past the miniature's attention budget, so that blocks compete
constexpr size_t kSingle = 6;    // decoded one by one

using kernels::ComputeMode;

class SameBits : public ::testing::TestWithParam<ComputeMode> {
 protected:
  static void SetUpTestSuite() {
    scratch_ = new ScratchDirectory;
    packed_ = new std::string(PackInto(*scratch_, MiniatureDirectory()));
    expected_ = new std::map<ComputeMode, std::vector<float>>;
    for (ComputeMode mode : kernels::kComputeModes) {
      auto loaded = LoadForTest(Options(mode));
      ASSERT_TRUE(loaded) << loaded.error().message;
      if (ids_ == nullptr) ids_ = new std::vector(TestIds((*loaded)->config(), kTokens));
      min_slots_ = plan::MinSlots((*loaded)->config());
      all_slots_ = (*loaded)->plan().all_slots;
      auto logits = Logits(**loaded, *ids_, kTokens, kSingle);
      ASSERT_TRUE(logits) << logits.error().message;
      (*expected_)[mode] = std::move(*logits);
    }
  }
  static void TearDownTestSuite() {
    delete expected_;
    delete ids_;
    delete packed_;
    delete scratch_;
  }

  // The reference: original form, everything in memory, one pass.
  static LoadOptions Options(ComputeMode mode = GetParam()) {
    LoadOptions options;
    options.directory = MiniatureDirectory();
    options.wishes = {.slots = UINT32_MAX,
                      .pass_rows = kTokens,
                      .memory_bytes = 2'000'000'000,
                      .max_context = 1024,
                      .threads = 2,
                      .compute = mode};
    return options;
  }
  static const std::vector<float>& Expected() { return expected_->at(GetParam()); }

  static void ExpectSame(const LoadOptions& options, size_t pass_rows, size_t tokens = kTokens) {
    auto loaded = LoadForTest(options);
    ASSERT_TRUE(loaded) << loaded.error().message;
    ExpectSame(**loaded, pass_rows, tokens, kSingle);
  }
  static void ExpectSame(LoadedModel& loaded, size_t pass_rows, size_t tokens, size_t single) {
    auto logits = Logits(loaded, std::span(*ids_).first(tokens), pass_rows, single);
    ASSERT_TRUE(logits) << logits.error().message;
    const size_t vocab = loaded.config().vocab_size;
    for (size_t t = 0; t < tokens; ++t) {
      ASSERT_EQ(std::memcmp(logits->data() + t * vocab, Expected().data() + t * vocab,
                            vocab * sizeof(float)),
                0)
          << "first difference at token " << t;
    }
  }

  static inline ScratchDirectory* scratch_ = nullptr;
  static inline std::string* packed_ = nullptr;
  static inline std::vector<uint32_t>* ids_ = nullptr;
  static inline std::map<ComputeMode, std::vector<float>>* expected_ = nullptr;
  static inline uint32_t min_slots_ = 0, all_slots_ = 0;
};

TEST_P(SameBits, WhateverTheNumberOfSlots) {
  for (uint32_t slots : {min_slots_, all_slots_ / 3, all_slots_}) {
    SCOPED_TRACE(slots);
    LoadOptions options = Options();
    options.wishes.slots = slots;
    ExpectSame(options, kTokens);
    ExpectSame(options, 7);
  }
}

TEST_P(SameBits, WhateverTheThreads) {
  for (int threads : {1, 3}) {
    SCOPED_TRACE(threads);
    LoadOptions options = Options();
    options.wishes.threads = threads;
    ExpectSame(options, kTokens);
  }
}

TEST_P(SameBits, WhateverThePasses) {
  for (size_t pass : {1, 7, 64}) {
    SCOPED_TRACE(pass);
    ExpectSame(Options(), pass);
  }
}

TEST_P(SameBits, WhateverTheReadsAndTheForm) {
  for (const std::string& directory : {MiniatureDirectory(), *packed_}) {
    for (io::BackendKind io : {io::BackendKind::kAuto, io::BackendKind::kThreads}) {
      SCOPED_TRACE(directory);
      LoadOptions options = Options();
      options.directory = directory;
      options.io = io;
      options.wishes.slots = min_slots_;
      ExpectSame(options, 64);
    }
  }
}

TEST_P(SameBits, WhateverIsReadAhead) {
  for (const uint32_t slots : {min_slots_, all_slots_ / 3}) {
    for (const auto mode : {model::LookAheadMode::kOn, model::LookAheadMode::kOff}) {
      SCOPED_TRACE(::testing::Message() << slots << " slots, mode " << static_cast<int>(mode));
      LoadOptions options = Options();
      options.directory = *packed_;
      options.wishes.slots = slots;
      auto loaded = LoadForTest(options);
      ASSERT_TRUE(loaded) << loaded.error().message;
      (*loaded)->model().UseLookAhead(mode);
      // Passes that sweep, and tokens enough to learn which guesses come true.
      ExpectSame(**loaded, 64, 256, 64);
      const experts::StoreStats stats = (*loaded)->experts().stats();
      EXPECT_EQ(stats.read_ahead > 0, mode == model::LookAheadMode::kOn);
    }
  }
}

TEST_P(SameBits, WhateverDiskBringsThem) {
  const std::string copy = scratch_->Path("copy");
  std::filesystem::copy(
      *packed_, copy,
      std::filesystem::copy_options::overwrite_existing | std::filesystem::copy_options::recursive);
  LoadOptions options = Options();
  options.directory = *packed_;
  options.mirror = copy;
  options.wishes.slots = min_slots_;
  ExpectSame(options, 64, 128);
}

TEST(Mirror, MustBeACopy) {
  ScratchDirectory scratch;
  const std::string packed = PackInto(scratch, TinyDirectory());
  const std::string copy = scratch.Path("copy");
  std::filesystem::copy(packed, copy);
  LoadOptions options;
  options.wishes.memory_bytes = 1'000'000'000;
  options.directory = TinyDirectory();
  options.mirror = copy;
  const auto original = LoadForTest(options);
  ASSERT_FALSE(original);
  EXPECT_EQ(original.error().code, ErrorCode::kUnsupported) << original.error().message;

  options.directory = packed;
  EXPECT_TRUE(LoadForTest(options));
  std::filesystem::resize_file(copy + "/experts.bin", 4096);
  const auto shorter = LoadForTest(options);
  ASSERT_FALSE(shorter);
  EXPECT_EQ(shorter.error().code, ErrorCode::kCorrupt) << shorter.error().message;
  std::filesystem::resize_file(copy + "/checksums.bin", 0);
  const auto other = LoadForTest(options);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::kInvalidArgument) << other.error().message;
  std::filesystem::remove(copy + "/manifest.json");
  EXPECT_FALSE(LoadForTest(options));
}

TEST_P(SameBits, WhateverTheInstructions) {
  for (const kernels::KernelTable* table : kernels::AvailableKernels()) {
    SCOPED_TRACE(table->name);
    LoadOptions options = Options();
    options.kernels = table->name;
    // Modes differ in their products with panels only, which a few tokens show; the scalar code is
    // slow.
    const bool few = table->name == "scalar" && GetParam() != ComputeMode::kExact;
    ExpectSame(options, 64, few ? 40 : kTokens);
  }
}

// A model of every mode gives each mode's own bits, by passes and by its head over kept streams.
TEST_P(SameBits, WhateverTheModesBefore) {
  LoadOptions options = Options(ComputeMode::kInt8);
  options.wishes.every_mode = true;
  auto loaded = LoadForTest(options);
  ASSERT_TRUE(loaded) << loaded.error().message;
  model::Model& model = (*loaded)->model();
  const size_t vocab = (*loaded)->config().vocab_size, width = (*loaded)->config().hc_width();
  constexpr size_t kRows = 70;
  std::vector<float> logits(kRows * vocab), streams(kRows * width);
  for (ComputeMode mode : {ComputeMode::kExact, ComputeMode::kInt8, GetParam()}) {
    state::Sequence sequence((*loaded)->config());
    model::Pass pass;
    pass.ids = std::span(*ids_).first(kRows);
    pass.compute = mode;
    pass.observe = [&](uint32_t, kernels::ConstRows residual, size_t rows) {
      for (size_t r = 0; r < rows; ++r) {
        std::copy_n(residual.row(r), width, streams.data() + r * width);
      }
    };
    ASSERT_TRUE(model.Forward(pass, sequence));
  }
  for (size_t first = 0; first < kRows; first += 33) {
    ASSERT_TRUE(model.Head({streams.data() + first * width, width},
                           std::min<size_t>(33, kRows - first), GetParam(),
                           logits.data() + first * vocab));
  }
  EXPECT_EQ(std::memcmp(logits.data(), Expected().data(), logits.size() * sizeof(float)), 0);
}

TEST(Modes, AreRefusedWhereTheWorkspaceIsAnothers) {
  LoadOptions options;
  options.directory = MiniatureDirectory();
  options.wishes.compute = ComputeMode::kInt8;
  options.wishes.max_context = 1024;
  auto loaded = LoadForTest(options);
  ASSERT_TRUE(loaded) << loaded.error().message;
  const uint32_t id = 1;
  state::Sequence sequence((*loaded)->config());
  model::Pass pass;
  pass.ids = {&id, 1};
  pass.compute = ComputeMode::kExact;
  const Status status = (*loaded)->model().Forward(pass, sequence);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(sequence.usable());
  pass.compute = ComputeMode::kInt8;
  EXPECT_TRUE((*loaded)->model().Forward(pass, sequence));
}

TEST_P(SameBits, FromASnapshotTakenAnywhere) {
  auto loaded = LoadForTest(Options());
  ASSERT_TRUE(loaded) << loaded.error().message;
  const size_t vocab = (*loaded)->config().vocab_size;
  std::vector<float> logits(vocab);
  const auto forward = [&](state::Sequence& sequence, size_t first, size_t count) {
    model::Pass pass;
    pass.ids = std::span(*ids_).subspan(first, count);
    pass.logit_rows = 1;
    pass.logits = logits.data();
    ASSERT_TRUE((*loaded)->model().Forward(pass, sequence));
  };
  for (size_t cut : {1u, 62u, 263u, 301u}) {
    state::Sequence original((*loaded)->config());
    forward(original, 0, cut);
    state::Sequence copy(original);
    forward(original, cut, 5);  // the original goes elsewhere first
    forward(copy, cut, kTokens - kSingle - cut);
    EXPECT_EQ(std::memcmp(logits.data(), Expected().data() + (kTokens - kSingle - 1) * vocab,
                          vocab * sizeof(float)),
              0);
  }
}

// Snapshots within one pass go on with the bits of a pass that ended there.
TEST_P(SameBits, FromSnapshotsWithinAPass) {
  auto loaded = LoadForTest(Options());
  ASSERT_TRUE(loaded) << loaded.error().message;
  const checkpoint::ModelConfig& config = (*loaded)->config();
  const size_t vocab = config.vocab_size;
  std::vector<float> logits(vocab);
  const auto forward = [&](state::Sequence& sequence, size_t count,
                           model::Captures<state::Sequence> captures) {
    model::Pass pass;
    pass.ids = std::span(*ids_).subspan(sequence.length(), count);
    pass.captures = captures;
    pass.logit_rows = 1;
    pass.logits = logits.data();
    return (*loaded)->model().Forward(pass, sequence);
  };
  constexpr std::array<size_t, 7> kCuts = {1, 2, 3, 62, 255, 256, 301};
  for (const size_t before : {0u, 6u}) {
    state::Sequence live(config);
    if (before > 0) {
      ASSERT_TRUE(forward(live, before, {}));
    }
    std::vector<state::Sequence> kept(kCuts.size(), state::Sequence(config));
    std::vector<model::Capture<state::Sequence>> captures;
    for (size_t i = 0; i < kCuts.size(); ++i) captures.push_back({kCuts[i], &kept[i]});
    ASSERT_TRUE(forward(live, 310, captures));
    ASSERT_TRUE(forward(live, 2, {}));
    for (size_t i = 0; i < kCuts.size(); ++i) {
      SCOPED_TRACE(kCuts[i]);
      ASSERT_EQ(kept[i].length(), before + kCuts[i]);
      EXPECT_EQ(kept[i].next_position(), static_cast<int32_t>(before + kCuts[i]));
      ASSERT_TRUE(forward(kept[i], kTokens - kSingle - kept[i].length(), {}));
      EXPECT_EQ(std::memcmp(logits.data(), Expected().data() + (kTokens - kSingle - 1) * vocab,
                            vocab * sizeof(float)),
                0);
    }
  }
}

TEST(Snapshots, OutOfOrderAreRefused) {
  LoadOptions options;
  options.directory = MiniatureDirectory();
  options.wishes.max_context = 1024;
  auto loaded = LoadForTest(options);
  ASSERT_TRUE(loaded) << loaded.error().message;
  const std::vector<uint32_t> ids = TestIds((*loaded)->config(), 5);
  state::Sequence a((*loaded)->config()), b(a), live(a);
  using Capture = model::Capture<state::Sequence>;
  for (const std::vector<Capture>& captures :
       {std::vector<Capture>{{0, &a}}, {{5, &a}}, {{3, &a}, {2, &b}}, {{3, &a}, {3, &b}}}) {
    model::Pass pass;
    pass.ids = ids;
    pass.captures = captures;
    const Status status = (*loaded)->model().Forward(pass, live);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
    EXPECT_TRUE(live.usable());
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, SameBits, testing::ValuesIn(kernels::kComputeModes),
                         [](const auto& mode) { return std::string(NameOf(mode.param)); });

}  // namespace
}  // namespace slotstream::engine
