#include "checkpoint/original_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "checkpoint/synthetic_checkpoint.h"
#include "io/faulty_backend.h"
#include "io/test_directory.h"

namespace slotstream::checkpoint {
namespace {

using ::testing::HasSubstr;

using Bytes = std::vector<std::byte>;

// Tensors read straight from the files.
class Truth {
 public:
  explicit Truth(const std::string& directory) : index_(OpenTensorIndex(directory, false)) {}

  Bytes Read(const std::string& name) const {
    auto found = index_.tensors.find(name);
    EXPECT_NE(found, index_.tensors.end()) << name;
    Bytes out(found->second.info.bytes);
    EXPECT_TRUE(index_.files[found->second.file]->file().ReadAt(found->second.info.offset, out));
    return out;
  }

 private:
  TensorIndex index_;
};

float Value(const Bytes& bf16, size_t i) {
  uint16_t bits = 0;
  std::memcpy(&bits, bf16.data() + i * 2, 2);
  return Bf16ToFloat(bits);
}

// What the tensor must look like in memory, without the norms' +1.
Bytes Expected(const Truth& truth, const ExpectedTensor& tensor, uint32_t group) {
  if (tensor.storage == Storage::kBf16) return truth.Read(tensor.module + tensor.suffix);
  if (tensor.storage == Storage::kFloat32) {
    const Bytes raw = truth.Read(tensor.module + tensor.suffix);
    std::vector<float> values(size_t{tensor.n} * tensor.k);
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t to =
          tensor.conversion == Conversion::kTranspose ? i % tensor.n * tensor.k + i / tensor.n : i;
      values[to] = Value(raw, i);
    }
    auto bytes = std::as_bytes(std::span(values));
    return Bytes(bytes.begin(), bytes.end());
  }
  const Bytes weight = truth.Read(tensor.module + ".weight");
  const Bytes scales = truth.Read(tensor.module + ".scales");
  const Bytes biases = truth.Read(tensor.module + ".biases");
  if (tensor.storage == Storage::kPanels) {
    return NaivePanels({tensor.n, tensor.k, group}, weight.data(), scales.data(), biases.data());
  }
  Bytes rows;
  const size_t words = tensor.k / 2, ends = tensor.k / group * 2;
  for (size_t row = 0; row < tensor.n; ++row) {
    rows.insert(rows.end(), weight.begin() + row * words, weight.begin() + (row + 1) * words);
    rows.insert(rows.end(), scales.begin() + row * ends, scales.begin() + (row + 1) * ends);
    rows.insert(rows.end(), biases.begin() + row * ends, biases.begin() + (row + 1) * ends);
  }
  return rows;
}

Bytes Loaded(const ResidentPart& part, const ResidentTensor& tensor) {
  const std::byte* data = nullptr;
  switch (tensor.storage) {
    case Storage::kPanels:
      data = part.panels(tensor.name)->data;
      break;
    case Storage::kRows:
      data = part.rows(tensor.name)->data;
      break;
    case Storage::kBf16:
      data = reinterpret_cast<const std::byte*>(part.bf16(tensor.name)->data);
      break;
    case Storage::kFloat32:
      data = reinterpret_cast<const std::byte*>(*part.floats(tensor.name));
      break;
  }
  return Bytes(data, data + tensor.bytes);
}

void CheckParts(const Checkpoint& checkpoint, const Truth& truth) {
  auto queue = TestQueue();
  for (Part which : {Part::kTrunk, Part::kDraft, Part::kVision}) {
    const ResidentLayout* layout = checkpoint.layout(which);
    if (layout == nullptr) continue;
    uint64_t last = 0;
    auto part = checkpoint.Load(which, *queue, [&](uint64_t done) {
      EXPECT_GE(done, last);
      last = done;
    });
    ASSERT_TRUE(part) << part.error().message;
    EXPECT_LE(last, layout->bytes);
    const auto expected = ExpectedTensors(checkpoint.config(), which);
    ASSERT_EQ(expected.size(), layout->tensors.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      const ResidentTensor& tensor = layout->tensors[i];
      EXPECT_EQ(Loaded(*part, tensor), Expected(truth, expected[i], tensor.group)) << tensor.name;
    }
  }
}

void CheckExperts(const Checkpoint& checkpoint, const Truth& truth) {
  const ModelConfig& config = checkpoint.config();
  const ExpertFormat& format = checkpoint.experts();
  auto queue = TestQueue();
  for (uint32_t layer = 0; layer < format.layers(); ++layer) {
    std::vector<Bytes> pieces;
    for (const char* name : {"gate", "up", "down"}) {
      for (const char* piece : {".weight", ".scales", ".biases"}) {
        pieces.push_back(truth.Read(ExpertModule(config, layer, name) + piece));
      }
    }
    for (uint32_t expert = layer % 3; expert < format.experts(); expert += 3) {
      Bytes want;
      size_t i = 0;
      for (const PanelShape& shape :
           {format.shape().gate, format.shape().up, format.shape().down}) {
        auto at = [&](const Bytes& b) { return b.data() + b.size() / config.num_experts * expert; };
        const Bytes panels =
            NaivePanels(shape, at(pieces[i]), at(pieces[i + 1]), at(pieces[i + 2]));
        want.insert(want.end(), panels.begin(), panels.end());
        i += 3;
      }
      want.resize(format.shape().record_bytes());
      auto record = ReadExpert(format, layer, expert, *queue);
      ASSERT_TRUE(record) << record.error().message;
      EXPECT_TRUE(std::ranges::equal(record->span(), want)) << layer << " " << expert;
    }
  }
}

void CheckNgrams(const Checkpoint& checkpoint, const Truth& truth) {
  const ModelConfig& config = checkpoint.config();
  auto queue = TestQueue();
  for (size_t i = 0; i < config.ple_layers.size(); ++i) {
    const NgramFormat& format = checkpoint.ngrams(i);
    Bytes weight, scales, biases;
    for (uint32_t shard = 0; shard < config.split_ngram_parts; ++shard) {
      const std::string module = NgramShardModule(config.ple_layers[i], shard);
      for (auto [all, suffix] : {std::pair(&weight, ".weight"), std::pair(&scales, ".scales"),
                                 std::pair(&biases, ".biases")}) {
        const Bytes part = truth.Read(module + suffix);
        all->insert(all->end(), part.begin(), part.end());
      }
    }
    ASSERT_EQ(weight.size(), format.rows() * format.width() / 2);
    const size_t words = format.width() / 2, ends = format.width() / format.group() * 2;
    for (uint64_t row = 0; row < format.rows(); row += 17) {
      Bytes want(weight.begin() + row * words, weight.begin() + (row + 1) * words);
      want.insert(want.end(), scales.begin() + row * ends, scales.begin() + (row + 1) * ends);
      want.insert(want.end(), biases.begin() + row * ends, biases.begin() + (row + 1) * ends);
      auto got = ReadNgramRow(format, row, *queue);
      ASSERT_TRUE(got) << got.error().message;
      EXPECT_EQ(*got, want) << row;
    }
  }
}

void CheckWhole(const std::string& directory, bool direct) {
  auto checkpoint = Checkpoint::Open(directory, {.direct = direct});
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ((*checkpoint)->form(), Form::kOriginal);
  const Truth truth(directory);
  CheckParts(**checkpoint, truth);
  CheckExperts(**checkpoint, truth);
  CheckNgrams(**checkpoint, truth);
}

TEST(OriginalCheckpoint, PublishedLayoutsReadAsDefined) {
  for (const char* name : {"/models/miniature", "/tests/goldens/tiny-a"}) {
    SCOPED_TRACE(name);
    CheckWhole(std::string(SLOTSTREAM_SOURCE_DIR) + name, true);
  }
}

TEST(OriginalCheckpoint, OddGeometryReadsAsDefinedDirectAndBuffered) {
  io::TestDirectory directory;
  SyntheticCheckpoint(OddConfig()).Write(directory.path());
  CheckWhole(directory.path(), true);
  CheckWhole(directory.path(), false);
}

TEST(OriginalCheckpoint, TinyHasDraftAndVision) {
  auto checkpoint = Checkpoint::Open(std::string(SLOTSTREAM_SOURCE_DIR) + "/tests/goldens/tiny-a");
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_TRUE((*checkpoint)->has_draft());
  EXPECT_TRUE((*checkpoint)->has_vision());
  EXPECT_EQ((*checkpoint)->experts().layers(), (*checkpoint)->config().num_layers() + 1);
  for (const char* name : {"embed_tokens", "layers.0.linear_attn.A_log", "layers.1.ple.conv1d",
                           "layers.3.self_attn.indexer.q_layernorm", "lm_head"}) {
    EXPECT_NE((*checkpoint)->layout(Part::kTrunk)->Find(name), nullptr) << name;
  }
  EXPECT_NE((*checkpoint)->layout(Part::kDraft)->Find("mtp.fc_hidden"), nullptr);
  EXPECT_NE((*checkpoint)->layout(Part::kVision)->Find("vision.blocks.0.norm1.bias"), nullptr);
  EXPECT_EQ((*checkpoint)->layout(Part::kTrunk)->Find("no such"), nullptr);
}

// Norms that store w get +1, each file set by its own mean; linear_attn.norm never does.
TEST(OriginalCheckpoint, NormConventionIsDecidedPerFileSet) {
  SyntheticCheckpoint synthetic(OddConfig());
  for (auto& [name, tensor] : synthetic.tensors()) {
    const bool norm = name.find("norm") != std::string::npos && !name.starts_with("vision");
    if (!name.starts_with("mtp.") || !norm) continue;
    for (size_t i = 0; i < tensor.data.size() / 2; ++i) {
      const uint16_t bits = FloatToBf16(Value(tensor.data, i) - 1.0f);
      std::memcpy(tensor.data.data() + i * 2, &bits, 2);
    }
  }
  io::TestDirectory directory;
  synthetic.Write(directory.path());
  auto checkpoint = Checkpoint::Open(directory.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  auto queue = TestQueue();
  auto mean = [&](Part which, const char* name) {
    auto part = (*checkpoint)->Load(which, *queue, {});
    const ResidentTensor* tensor = (*checkpoint)->layout(which)->Find(name);
    const float* values = *part->floats(name);
    double sum = 0;
    for (uint32_t i = 0; i < tensor->k; ++i) sum += values[i];
    return sum / tensor->k;
  };
  EXPECT_NEAR(mean(Part::kTrunk, "layers.0.attn_hyper_connection.hc_norm"), 1.2, 0.1);
  EXPECT_NEAR(mean(Part::kTrunk, "layers.0.linear_attn.norm"), 0.0, 0.1);
  EXPECT_NEAR(mean(Part::kDraft, "mtp.layers.0.attn_hyper_connection.hc_norm"), 1.2, 0.1);
  EXPECT_NEAR(mean(Part::kDraft, "mtp.pre_fc_norm_hidden"), 1.2, 0.1);
}

TEST(OriginalCheckpoint, LoadReportsReadErrorsAndCanBeRepeated) {
  io::TestDirectory directory;
  SyntheticCheckpoint(OddConfig()).Write(directory.path());
  auto checkpoint = Checkpoint::Open(directory.path());
  ASSERT_TRUE(checkpoint);
  auto inner = io::MakeBackend(io::BackendKind::kThreads, 8, nullptr);
  auto faulty = std::make_unique<io::FaultyBackend>(
      std::move(*inner),
      std::vector<io::Fault>{{.kind = io::FaultKind::kShortRead, .count = 60, .probability = 0.5},
                             {.kind = io::FaultKind::kIoError, .first_read = 60, .count = 100}},
      3);
  io::ReadQueue queue(std::move(faulty), Clock::Steady());
  auto first = (*checkpoint)->Load(Part::kTrunk, queue, {});
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().code, ErrorCode::kIo);
  EXPECT_THAT(first.error().message, HasSubstr(directory.path()));
  EXPECT_EQ(queue.outstanding(), 0u);
  for (int i = 0; i < 60; ++i) {
    if ((*checkpoint)->Load(Part::kTrunk, queue, {})) return;
  }
  FAIL() << "never recovered";
}

TEST(OriginalCheckpoint, MissingPartIsAnError) {
  auto checkpoint = Checkpoint::Open(std::string(SLOTSTREAM_SOURCE_DIR) + "/models/miniature");
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  auto queue = TestQueue();
  auto part = (*checkpoint)->Load(Part::kVision, *queue, {});
  ASSERT_FALSE(part);
  EXPECT_EQ(part.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace slotstream::checkpoint
