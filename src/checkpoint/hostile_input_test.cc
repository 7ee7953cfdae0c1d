// Ten thousand damaged inputs. Each parser must return an error or something sound, and never
// crash, hang or allocate without bound; run this under sanitizers too.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "checkpoint/config.h"
#include "checkpoint/inventory.h"
#include "checkpoint/manifest.h"
#include "checkpoint/pack_journal.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/synthetic_checkpoint.h"
#include "checkpoint/tensor_index.h"

namespace slotstream::checkpoint {
namespace {

class Mutator {
 public:
  explicit Mutator(uint32_t seed) : rng_(seed) {}

  std::string operator()(std::string text) {
    for (uint32_t n = 1 + rng_() % 3; n > 0; --n) Mutate(text);
    return text;
  }

 private:
  void Mutate(std::string& text) {
    if (text.empty()) return;
    const size_t at = rng_() % text.size();
    switch (rng_() % 8) {
      case 0:
        text[at] = static_cast<char>(rng_());
        break;
      case 1:
        text.erase(at, 1 + rng_() % 20);
        break;
      case 2:
        text.insert(at, text.substr(rng_() % text.size(), 1 + rng_() % 60));
        break;
      case 3:
        text.resize(at);
        break;
      case 4:
        text.insert(at, std::string(1 + rng_() % 100, "[{\"0-"[rng_() % 5]));
        break;
      default:
        ReplaceValue(text, at);
    }
  }

  // Numbers and words become extreme ones: the syntax survives, the meaning does not.
  void ReplaceValue(std::string& text, size_t at) {
    constexpr const char* kValues[] = {"0",
                                       "1",
                                       "-1",
                                       "3",
                                       "7",
                                       "65535",
                                       "16777216",
                                       "2147483648",
                                       "4294967295",
                                       "4294967296",
                                       "9223372036854775807",
                                       "18446744073709551615",
                                       "18446744073709551616",
                                       "1e308",
                                       "1e309",
                                       "0.1",
                                       "null",
                                       "true",
                                       "\"x\"",
                                       "[]",
                                       "{}",
                                       "[1,2,3]"};
    const size_t begin = text.find_first_of("0123456789", at);
    if (begin == std::string::npos) return;
    const size_t end = text.find_first_not_of("0123456789.", begin);
    text.replace(begin, end == std::string::npos ? std::string::npos : end - begin,
                 kValues[rng_() % std::size(kValues)]);
  }

  std::mt19937 rng_;
};

TEST(HostileInput, SafetensorsHeaders) {
  const std::string good = R"({"__metadata__":{"format":"mlx"},
"w":{"dtype":"U32","shape":[16,8],"data_offsets":[0,512]},
"s":{"dtype":"BF16","shape":[16,1],"data_offsets":[512,544]},
"b":{"dtype":"BF16","shape":[16,1],"data_offsets":[544,576]},
"i":{"dtype":"I64","shape":[3],"data_offsets":[576,600]}})";
  Mutator mutate(1);
  int accepted = 0;
  for (int i = 0; i < 5000; ++i) {
    auto tensors = ParseSafetensorsHeader(mutate(good), 400, 1000, "x.safetensors");
    if (!tensors) {
      EXPECT_FALSE(tensors.error().message.empty());
      EXPECT_LT(tensors.error().message.size(), 2000u);
      continue;
    }
    ++accepted;
    uint64_t bytes = 0;
    for (const auto& [name, info] : *tensors) {
      EXPECT_GE(info.offset, 400u);
      EXPECT_LE(info.offset + info.bytes, 1000u);
      bytes += info.bytes;
    }
    EXPECT_EQ(bytes, 600u);
  }
  EXPECT_GT(accepted, 0);
  EXPECT_LT(accepted, 1500);
}

TEST(HostileInput, Configs) {
  nlohmann::json json = OddConfig();
  json["vision_config"] = {{"depth", 2},
                           {"hidden_size", 64},
                           {"intermediate_size", 128},
                           {"num_heads", 2},
                           {"patch_size", 8},
                           {"temporal_patch_size", 2},
                           {"spatial_merge_size", 2},
                           {"num_position_embeddings", 16},
                           {"out_hidden_size", 192}};
  json["quantization"] = {{"group_size", 64}, {"bits", 4}};
  const std::string good = json.dump();
  Mutator mutate(2);
  int accepted = 0;
  for (int i = 0; i < 4000; ++i) {
    auto config = ParseConfig(mutate(good), "config.json");
    if (!config) {
      EXPECT_FALSE(config.error().message.empty());
      continue;
    }
    ++accepted;
    // Whatever was accepted has a computable layout whose parts do not overlap.
    const Inventory inventory = TakeInventory(*config, TensorIndex{});
    uint64_t end = 0;
    for (const ResidentTensor& tensor : inventory.trunk.layout.tensors) {
      ASSERT_GE(tensor.offset, end);
      end = tensor.offset + tensor.bytes;
    }
    EXPECT_LE(end, inventory.trunk.layout.bytes);
    EXPECT_GT(inventory.expert.record_bytes(), 0u);
  }
  EXPECT_GT(accepted, 50);
  EXPECT_LT(accepted, 3000);
}

TEST(HostileInput, IndexJournalAndManifest) {
  const std::string weight_map =
      R"({"metadata":{"total_size":5},"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors"}})";
  PackJournal journal;
  journal.sources = {{"a.safetensors", 5, 7, "00", "11"}};
  journal.lengths = {{"trunk.bin", 4096}};
  const std::string journal_text = journal.ToJson();
  Manifest manifest;
  manifest.layout.expert = {{64, 64, 32}, {64, 64, 32}, {64, 64, 32}};
  manifest.side_files = {{"config.json", 5, "aa"}};
  const std::string manifest_text = FormatManifest(manifest);
  ASSERT_TRUE(ParseSideFiles(manifest_text, "m"));
  Mutator mutate(3);
  for (int i = 0; i < 1500; ++i) {
    if (auto map = ParseWeightMap(mutate(weight_map), "i")) {
      for (const auto& [tensor, shard] : *map) EXPECT_EQ(shard.find('/'), std::string::npos);
    }
    if (auto parsed = ParseJournal(mutate(journal_text), "j")) {
      for (const auto& [name, length] : parsed->lengths) {
        EXPECT_LE(length, uint64_t{INT64_MAX});
      }
    }
    if (auto files = ParseSideFiles(mutate(manifest_text), "m")) {
      EXPECT_EQ(files->size(), 1u);  // the manifest's own checksum passes only the unchanged
    }
  }
}

}  // namespace
}  // namespace slotstream::checkpoint
