// A prompt with a picture: its rows spliced in, positions on three axes, logits as an independent
// implementation has them.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "engine/test_support.h"

namespace slotstream::engine {
namespace {

// Two versions of the reference on two machines agree to 3e-6.
constexpr double kTolerance = 2e-5;

template <typename T>
std::vector<T> ReadTensor(const checkpoint::SafetensorsFile& file, const std::string& name) {
  const checkpoint::TensorInfo& tensor = file.tensors().at(name);
  std::vector<T> values(tensor.bytes / sizeof(T));
  EXPECT_TRUE(file.file().ReadAt(tensor.offset, std::as_writable_bytes(std::span(values))));
  return values;
}

TEST(ImageGolden, LogitsOfEveryPosition) {
  auto golden = checkpoint::SafetensorsFile::Open(TinyDirectory() + "/golden_image.safetensors",
                                                  /*direct=*/false);
  ASSERT_TRUE(golden) << golden.error().message;
  const auto golden_ids = ReadTensor<int32_t>(**golden, "ids");
  const auto features = ReadTensor<float>(**golden, "image_features");
  const auto axes = ReadTensor<int32_t>(**golden, "position_ids");
  const auto expected = ReadTensor<float>(**golden, "logits");
  const std::vector<uint32_t> ids(golden_ids.begin(), golden_ids.end());
  const size_t count = ids.size();

  // In one pass, and in passes that cut the picture.
  for (const size_t pass_rows : {count, size_t{7}}) {
    SCOPED_TRACE(pass_rows);
    LoadOptions options;
    options.directory = TinyDirectory();
    options.wishes = {.slots = {},
                      .pass_rows = static_cast<uint32_t>(pass_rows),
                      .memory_bytes = 1'000'000'000,
                      .max_context = 512,
                      .threads = 2,
                      .compute = kernels::ComputeMode::kExact};
    auto loaded = LoadForTest(options);
    ASSERT_TRUE(loaded) << loaded.error().message;
    const checkpoint::ModelConfig& config = (*loaded)->config();
    const size_t hidden = config.hidden_size;
    const size_t vocab = config.vocab_size;
    ASSERT_TRUE(config.image_token_id);
    ASSERT_EQ(axes.size(), 3 * count);
    ASSERT_EQ(expected.size(), count * vocab);

    std::vector<state::Position> positions(count);
    std::vector<const float*> rows(count);
    size_t used = 0;
    int32_t last = 0;
    bool differ = false;
    for (size_t t = 0; t < count; ++t) {
      positions[t] = {axes[t], axes[count + t], axes[2 * count + t]};
      last = std::max({last, positions[t][0], positions[t][1], positions[t][2]});
      differ |= positions[t][1] != positions[t][2];
      if (ids[t] == *config.image_token_id) rows[t] = features.data() + hidden * used++;
    }
    ASSERT_EQ(used * hidden, features.size());
    ASSERT_TRUE(differ);

    state::Sequence sequence(config);
    std::vector<float> logits(count * vocab);
    for (size_t first = 0; first < count; first += pass_rows) {
      const size_t size = std::min(pass_rows, count - first);
      std::vector<model::SplicedRow> spliced;
      for (size_t r = 0; r < size; ++r) {
        if (rows[first + r] != nullptr) spliced.push_back({r, rows[first + r]});
      }
      model::Pass pass;
      pass.ids = std::span(ids).subspan(first, size);
      pass.positions = std::span(positions).subspan(first, size);
      pass.spliced = spliced;
      pass.logit_rows = size;
      pass.logits = logits.data() + first * vocab;
      const Status status = (*loaded)->model().Forward(pass, sequence);
      ASSERT_TRUE(status) << status.error().message;
    }
    EXPECT_EQ(sequence.next_position(), last + 1);
    for (size_t t = 0; t < count; ++t) {
      double difference = 0, norm = 0;
      for (size_t v = 0; v < vocab; ++v) {
        const double want = expected[t * vocab + v];
        difference += std::pow(logits[t * vocab + v] - want, 2);
        norm += want * want;
      }
      EXPECT_LT(std::sqrt(difference / norm), kTolerance) << "position " << t;
    }
  }
}

}  // namespace
}  // namespace slotstream::engine
