#include "checkpoint/inventory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/ngram_hash.h"
#include "checkpoint/published_config.h"
#include "checkpoint/synthetic_checkpoint.h"
#include "io/test_directory.h"

namespace slotstream::checkpoint {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// An index without files that holds what a config asks for, groups as published.
class FakeIndex {
 public:
  explicit FakeIndex(const ModelConfig& config) {
    for (Part part : {Part::kTrunk, Part::kDraft, Part::kVision}) {
      for (const ExpectedTensor& t : ExpectedTensors(config, part)) {
        if (t.quantized()) {
          Matrix(t.module, {}, t.n, t.k, 64);
        } else {
          Add(t.module + t.suffix, Dtype::kBf16, t.file_shape);
        }
      }
    }
    for (uint32_t l = 0; l < config.num_layers() + config.mtp_layers; ++l) {
      Matrix(ExpertModule(config, l, "gate"), {config.num_experts}, config.expert_size,
             config.hidden_size, 64);
      Matrix(ExpertModule(config, l, "up"), {config.num_experts}, config.expert_size,
             config.hidden_size, 64);
      Matrix(ExpertModule(config, l, "down"), {config.num_experts}, config.hidden_size,
             config.expert_size, 64);
    }
    for (size_t i = 0; i < config.ple_layers.size(); ++i) {
      const uint64_t rows = MakeNgramHash(config, i).rows / config.split_ngram_parts;
      for (uint32_t s = 0; s < config.split_ngram_parts; ++s) {
        Matrix(NgramShardModule(config.ple_layers[i], s), {}, rows, config.ngram_row_width(), 32);
      }
      const std::string module = PleEmbeddingModule(config.ple_layers[i]);
      Add(module + ".layer_multipliers", Dtype::kI64, {config.ngram_size});
      Add(module + ".ngram_heads_vocab_sizes", Dtype::kI64, {config.ngram_heads()});
      Add(module + ".ngram_heads_offsets", Dtype::kI64, {config.ngram_heads()});
    }
  }

  TensorIndex& index() { return index_; }

  uint64_t Bytes(std::string_view prefix) const {
    uint64_t sum = 0;
    for (const auto& [name, ref] : index_.tensors) {
      if (name.starts_with(prefix)) sum += ref.info.bytes;
    }
    return sum;
  }
  uint64_t BytesContaining(std::string_view part) const {
    uint64_t sum = 0;
    for (const auto& [name, ref] : index_.tensors) {
      if (name.find(part) != std::string::npos) sum += ref.info.bytes;
    }
    return sum;
  }

 private:
  void Add(const std::string& name, Dtype dtype, std::vector<uint64_t> shape) {
    uint64_t bytes = DtypeBytes(dtype);
    for (uint64_t n : shape) bytes *= n;
    index_.tensors[name] = TensorRef{0, TensorInfo{dtype, std::move(shape), 0, bytes}};
  }
  void Matrix(const std::string& module, std::vector<uint64_t> lead, uint64_t n, uint64_t k,
              uint64_t group) {
    lead.push_back(n);
    lead.push_back(k / 8);
    Add(module + ".weight", Dtype::kU32, lead);
    lead.back() = k / group;
    Add(module + ".scales", Dtype::kBf16, lead);
    Add(module + ".biases", Dtype::kBf16, lead);
  }

  TensorIndex index_;
};

ModelConfig Published() {
  nlohmann::json json = PublishedConfig();
  for (int s = 0; s < 128; ++s) {
    json["quantization"]["model.layers.1.ple.ple_embedding.ngram_embedding.shard_" +
                         std::to_string(s)] = {{"group_size", 32}, {"bits", 4}};
  }
  return *ParseConfig(json.dump(), "config.json");
}

// The byte totals of the published files.
TEST(Inventory, PublishedModel) {
  const ModelConfig config = Published();
  FakeIndex fake(config);
  const Inventory inventory = TakeInventory(config, fake.index());
  EXPECT_TRUE(inventory.problems.empty()) << inventory.problems.Lines().front();
  EXPECT_TRUE(inventory.notes.empty()) << inventory.notes.Lines().front();

  EXPECT_EQ(inventory.expert.bytes(), 2'764'800u);
  EXPECT_EQ(inventory.expert.record_bytes(), 675 * kPageSize);
  EXPECT_EQ(inventory.experts.size(), 49u);
  ASSERT_EQ(inventory.ngrams.size(), 1u);
  EXPECT_EQ(inventory.ngrams[0].rows, 320'001'536u);
  EXPECT_EQ(inventory.ngrams[0].rows_per_shard, 2'500'012u);
  EXPECT_EQ(inventory.ngrams[0].group, 32u);

  const uint64_t experts = fake.BytesContaining("switch_mlp");
  const uint64_t table = fake.BytesContaining("ngram_embedding");
  const uint64_t draft_experts = experts / 49;
  EXPECT_EQ(draft_experts, 1'415'577'600u);
  EXPECT_EQ(table, 32'000'153'600u);
  EXPECT_EQ(fake.Bytes("language_model.") - 48 * draft_experts - table, 2'924'005'400u);
  EXPECT_EQ(fake.Bytes("mtp.") - draft_experts, 55'369'216u);
  EXPECT_EQ(fake.Bytes("vision_tower."), 897'862'112u);
  EXPECT_EQ(fake.Bytes("language_model.") + fake.Bytes("vision_tower."), 103'769'745'912u);
  EXPECT_EQ(fake.Bytes("language_model.lm_head"), 357'580'800u);

  // In memory: the same, but vectors in float32, padding between tensors, no I64 constants.
  EXPECT_GT(inventory.trunk.layout.bytes, 2'924'005'400u);
  EXPECT_LT(inventory.trunk.layout.bytes, 2'924'005'400u + 8'000'000u);
  EXPECT_EQ(inventory.trunk.layout.bytes % kPageSize, 0u);
  uint64_t end = 0;
  for (const ResidentTensor& tensor : inventory.trunk.layout.tensors) {
    EXPECT_GE(tensor.offset, end) << tensor.name;
    EXPECT_EQ(tensor.offset % 64, 0u);
    end = tensor.offset + tensor.bytes;
  }
  EXPECT_LE(end, inventory.trunk.layout.bytes);
}

TEST(Inventory, ReportsEverythingThatIsWrong) {
  const ModelConfig config = Published();
  FakeIndex fake(config);
  auto& tensors = fake.index().tensors;
  const std::string layer = "language_model.model.layers.";
  tensors.erase(layer + "5.mlp.gate.weight");
  tensors.erase(layer + "6.linear_attn.out_proj.scales");
  tensors.erase("mtp.fc_hidden.biases");
  tensors.at(layer + "7.self_attn.q_norm.weight").info.dtype = Dtype::kF16;
  tensors.at(layer + "9.mlp.switch_mlp.up_proj.weight").info.shape = {512, 640, 319};
  tensors.at(layer + "1.ple.ple_embedding.layer_multipliers").info.dtype = Dtype::kF32;
  tensors.at("language_model.lm_head.scales").info.shape = {248320, 41};
  tensors.at("language_model.lm_head.weight").info.dtype = Dtype::kI32;
  tensors["language_model.surplus"] = TensorRef{};
  const Inventory inventory = TakeInventory(config, fake.index());
  const std::vector<std::string> lines = inventory.problems.Lines();
  for (const char* expected :
       {"layers.5.mlp.gate.weight is missing", "layers.6.linear_attn.out_proj.scales is missing",
        "mtp.fc_hidden.biases is missing", "layers.7.self_attn.q_norm.weight has dtype F16",
        "layers.9.mlp.switch_mlp.up_proj.weight has shape [512, 640, 319]",
        "layer_multipliers has dtype F32", "lm_head.scales has 41 columns",
        "lm_head.weight has dtype I32"}) {
    EXPECT_THAT(lines, Contains(HasSubstr(expected)));
  }
  EXPECT_EQ(inventory.problems.count(), 8u);
  EXPECT_THAT(inventory.notes.Lines(), Contains(HasSubstr("language_model.surplus is not used")));
}

TEST(Inventory, ReportsAreBounded) {
  const ModelConfig config = Published();
  const TensorIndex empty;
  const Inventory inventory = TakeInventory(config, empty);
  EXPECT_GT(inventory.problems.count(), 1000u);
  EXPECT_EQ(inventory.problems.Lines().size(), Report::kMaxLines + 1);
  EXPECT_THAT(inventory.problems.Lines().back(), HasSubstr("more"));
}

TEST(Inventory, GroupsMustAgree) {
  nlohmann::json json = PublishedConfig();
  const ModelConfig undeclared = *ParseConfig(json.dump(), "c");  // says 64 for every module
  FakeIndex fake(undeclared);
  EXPECT_THAT(TakeInventory(undeclared, fake.index()).problems.Lines(),
              Contains(HasSubstr("groups of 32, but the config says 64")));

  const ModelConfig config = Published();
  FakeIndex mixed(config);
  auto& tensors = mixed.index().tensors;
  for (const char* piece : {".scales", ".biases"}) {
    tensors.at("language_model.model.layers.9.mlp.switch_mlp.up_proj" + std::string(piece))
        .info.shape = {512, 640, 80};
  }
  EXPECT_THAT(TakeInventory(config, mixed.index()).problems.Lines(),
              Contains(HasSubstr("groups of 32, but in layers before it 64")));
}

TEST(Inventory, OptionalPartsAndConvolutionShapes) {
  const ModelConfig config = Published();
  FakeIndex fake(config);
  auto& tensors = fake.index().tensors;
  std::erase_if(tensors, [](const auto& entry) {
    return entry.first.starts_with("mtp.") || entry.first.starts_with("vision_tower.");
  });
  tensors.at("language_model.model.layers.0.linear_attn.conv1d.weight").info.shape = {10240, 1, 4};
  const Inventory inventory = TakeInventory(config, fake.index());
  EXPECT_TRUE(inventory.problems.empty()) << inventory.problems.Lines().front();
  EXPECT_FALSE(inventory.draft);
  EXPECT_FALSE(inventory.vision);
  EXPECT_EQ(inventory.experts.size(), 48u);
  EXPECT_EQ(inventory.notes.count(), 2u);
}

TEST(Inventory, PublisherLayoutIsExplained) {
  TensorIndex index;
  index.tensors["model.language_model.embed_tokens.weight"] = {};
  Status status = CheckNaming(index, "/some/where");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(status.error().message, HasSubstr("MLX"));
}

// Constants that went through a float are recognized.
TEST(Inventory, DamagedHashConstants) {
  for (const char* which :
       {"layer_multipliers", "ngram_heads_vocab_sizes", "ngram_heads_offsets"}) {
    SyntheticCheckpoint synthetic(OddConfig());
    auto& tensor = synthetic.tensors().at("language_model.model.layers.4.ple.ple_embedding." +
                                          std::string(which));
    tensor.data[8] ^= std::byte{1};
    io::TestDirectory directory;
    synthetic.Write(directory.path());
    auto opened = Checkpoint::Open(directory.path());
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(opened.error().message, HasSubstr(which + std::string("[1]")));
  }
}

}  // namespace
}  // namespace slotstream::checkpoint
