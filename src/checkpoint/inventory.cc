#include "checkpoint/inventory.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "checkpoint/ngram_hash.h"

namespace slotstream::checkpoint {
namespace {

using Shape = std::vector<uint64_t>;

// Finds tensors by name, remembers which were asked for, and reports what does not fit.
class Matcher {
 public:
  Matcher(const ModelConfig& config, const TensorIndex& index, Report& problems)
      : config_(config), index_(index), problems_(problems) {}

  // nullptr after a report.
  const TensorRef* Find(const std::string& name) {
    auto found = index_.tensors.find(name);
    if (found == index_.tensors.end()) {
      problems_.Add(fmt::format("{} is missing", name));
      return nullptr;
    }
    used_.insert(name);
    return &found->second;
  }

  TensorSource Plain(const std::string& name, const Shape& shape, std::initializer_list<Dtype> ok) {
    const TensorRef* ref = Find(name);
    if (ref == nullptr) return {};
    if (std::ranges::find(ok, ref->info.dtype) == ok.end()) {
      problems_.Add(fmt::format("{} has dtype {}, {} is needed", name, DtypeName(ref->info.dtype),
                                DtypeName(*ok.begin())));
    } else if (ref->info.shape != shape) {
      problems_.Add(fmt::format("{} has shape [{}], the config asks for [{}]", name,
                                fmt::join(ref->info.shape, ", "), fmt::join(shape, ", ")));
    }
    return SourceOf(*ref);
  }

  // A quantized matrix [lead..., n, k]. `group` receives the group size; 0 after a report.
  MatrixSource Matrix(const std::string& module, Shape lead, uint64_t n, uint64_t k,
                      uint32_t& group) {
    group = 0;
    auto shape = [&](uint64_t last) {
      Shape out = lead;
      out.insert(out.end(), {n, last});
      return out;
    };
    if (k % 8 != 0) {
      problems_.Add(
          fmt::format("{} cannot be a 4-bit matrix: {} inputs are no multiple of 8", module, k));
      return {};
    }
    MatrixSource out;
    out.weight = Plain(module + ".weight", shape(k / 8), {Dtype::kU32});
    const TensorRef* scales = Find(module + ".scales");
    uint64_t columns =
        scales == nullptr || scales->info.shape.empty() ? 0 : scales->info.shape.back();
    if (scales != nullptr && (columns == 0 || k % columns != 0 || k / columns % 8 != 0)) {
      problems_.Add(
          fmt::format("{}.scales has {} columns, which do not cut {} inputs into groups of "
                      "a multiple of 8",
                      module, columns, k));
      columns = 0;
    }
    if (columns == 0) {
      Find(module + ".biases");
      return out;
    }
    group = static_cast<uint32_t>(k / columns);
    out.scales = Plain(module + ".scales", shape(columns), {Dtype::kBf16});
    out.biases = Plain(module + ".biases", shape(columns), {Dtype::kBf16});
    CheckDeclaredGroup(module, group);
    return out;
  }

  const std::set<std::string>& used() const { return used_; }

 private:
  static TensorSource SourceOf(const TensorRef& ref) {
    return {ref.file, ref.info.dtype, ref.info.offset, ref.info.bytes};
  }

  // Override keys of the config lack the prefix "language_model." that the tensors carry.
  void CheckDeclaredGroup(const std::string& module, uint32_t group) {
    constexpr std::string_view kPrefix = "language_model.";
    std::optional<uint32_t> declared = config_.quantization_group;
    auto found = config_.quantization_overrides.find(module);
    if (found == config_.quantization_overrides.end() && module.starts_with(kPrefix)) {
      found = config_.quantization_overrides.find(module.substr(kPrefix.size()));
    }
    if (found != config_.quantization_overrides.end()) declared = found->second;
    if (declared && *declared != group) {
      problems_.Add(fmt::format("{} is quantized in groups of {}, but the config says {}", module,
                                group, *declared));
    }
  }

  const ModelConfig& config_;
  const TensorIndex& index_;
  Report& problems_;
  std::set<std::string> used_;
};

// A convolution's trailing dimension of 1 stands before or after the taps; the bytes are the same.
Shape ConvolutionShape(const TensorIndex& index, const std::string& name, const Shape& mlx) {
  auto found = index.tensors.find(name);
  const Shape torch = {mlx[0], mlx[2], mlx[1]};
  return found != index.tensors.end() && found->second.info.shape == torch ? torch : mlx;
}

// For matrices whose scales are missing or wrong (a problem already reported): what they probably
// have, so that sizes can still be told.
uint32_t AssumedGroup(const ModelConfig& config, uint32_t k) {
  for (uint32_t group : {config.quantization_group.value_or(64), 64u, 32u}) {
    if (group % 8 == 0 && k % group == 0) return group;
  }
  return 8;
}

PartInventory MatchPart(const ModelConfig& config, const TensorIndex& index, Part part,
                        Matcher& matcher) {
  const std::vector<ExpectedTensor> expected = ExpectedTensors(config, part);
  PartInventory out;
  std::vector<uint32_t> groups;
  for (const ExpectedTensor& tensor : expected) {
    ResidentSource source;
    source.conversion = tensor.conversion;
    uint32_t group = 0;
    if (tensor.quantized()) {
      source.pieces = matcher.Matrix(tensor.module, {}, tensor.n, tensor.k, group);
      if (group == 0) group = AssumedGroup(config, tensor.k);
    } else {
      const std::string name = tensor.module + tensor.suffix;
      const Shape shape = tensor.conversion == Conversion::kTranspose
                              ? ConvolutionShape(index, name, tensor.file_shape)
                              : tensor.file_shape;
      source.pieces.weight = tensor.storage == Storage::kFloat32
                                 ? matcher.Plain(name, shape, {Dtype::kBf16, Dtype::kF32})
                                 : matcher.Plain(name, shape, {Dtype::kBf16});
    }
    groups.push_back(group);
    out.sources.push_back(source);
  }
  out.layout = LayOut(expected, groups);
  return out;
}

void MatchExperts(const ModelConfig& config, bool draft, Matcher& matcher, Inventory& out) {
  const uint32_t layers = config.num_layers() + (draft ? config.mtp_layers : 0);
  const uint64_t hidden = config.hidden_size;
  const uint64_t inner = config.expert_size;
  PanelShape gate{config.expert_size, config.hidden_size, 0};
  PanelShape up = gate;
  PanelShape down{config.hidden_size, config.expert_size, 0};
  for (uint32_t l = 0; l < layers; ++l) {
    auto matrix = [&](const char* name, uint64_t n, uint64_t k, PanelShape& shape) {
      uint32_t group = 0;
      const std::string module = ExpertModule(config, l, name);
      MatrixSource source = matcher.Matrix(module, {config.num_experts}, n, k, group);
      if (group != 0 && shape.group != 0 && group != shape.group) {
        out.problems.Add(fmt::format("{} is quantized in groups of {}, but in layers before it {}",
                                     module, group, shape.group));
      } else if (group != 0) {
        shape.group = group;
      }
      return source;
    };
    ExpertLayerSource layer;
    layer.gate = matrix("gate", inner, hidden, gate);
    layer.up = matrix("up", inner, hidden, up);
    layer.down = matrix("down", hidden, inner, down);
    out.experts.push_back(layer);
  }
  for (PanelShape* shape : {&gate, &up, &down}) {
    if (shape->group == 0) shape->group = AssumedGroup(config, shape->k);
  }
  out.expert = ExpertShape{gate, up, down};
}

void MatchNgrams(const ModelConfig& config, Matcher& matcher, Inventory& out) {
  for (size_t i = 0; i < config.ple_layers.size(); ++i) {
    const uint32_t layer = config.ple_layers[i];
    NgramTableSource table;
    table.rows = MakeNgramHash(config, i).rows;
    table.rows_per_shard = table.rows / config.split_ngram_parts;
    table.width = config.ngram_row_width();
    const std::string module = PleEmbeddingModule(layer);
    if (table.rows % config.split_ngram_parts != 0) {
      out.problems.Add(fmt::format("{}: {} rows do not divide into split_ngram_parts = {}", module,
                                   table.rows, config.split_ngram_parts));
    }
    for (uint32_t shard = 0; shard < config.split_ngram_parts; ++shard) {
      uint32_t group = 0;
      const std::string name = NgramShardModule(layer, shard);
      table.shards.push_back(matcher.Matrix(name, {}, table.rows_per_shard, table.width, group));
      if (group != 0 && table.group != 0 && group != table.group) {
        out.problems.Add(fmt::format("{} is quantized in groups of {}, but shards before it in {}",
                                     name, group, table.group));
      } else if (group != 0) {
        table.group = group;
      }
    }
    if (table.group == 0) table.group = AssumedGroup(config, table.width);
    const uint64_t heads = config.ngram_heads();
    table.multipliers =
        matcher.Plain(module + ".layer_multipliers", {config.ngram_size}, {Dtype::kI64});
    table.sizes = matcher.Plain(module + ".ngram_heads_vocab_sizes", {heads}, {Dtype::kI64});
    table.offsets = matcher.Plain(module + ".ngram_heads_offsets", {heads}, {Dtype::kI64});
    out.ngrams.push_back(std::move(table));
  }
}

void NoteLeftovers(const TensorIndex& index, const std::set<std::string>& used, Report& notes) {
  for (const auto& [name, ref] : index.tensors) {
    if (!used.contains(name)) notes.Add(fmt::format("{} is not used", name.substr(0, 200)));
  }
}

}  // namespace

std::vector<std::string> Report::Lines() const {
  std::vector<std::string> out = lines_;
  if (count_ > lines_.size()) out.push_back(fmt::format("and {} more", count_ - lines_.size()));
  return out;
}

Status CheckNaming(const TensorIndex& index, const std::string& directory) {
  if (!index.HasPrefix("model.language_model.") && !index.HasPrefix("model.visual.")) return {};
  return Fail(
      ErrorCode::kUnsupported,
      fmt::format("{} holds the publisher's original weights (tensors "
                  "model.language_model.*), which are not quantized to 4 bits; download the "
                  "4-bit MLX conversion of the model instead, or make one with mlx-vlm's "
                  "convert",
                  directory));
}

Inventory TakeInventory(const ModelConfig& config, const TensorIndex& index) {
  Inventory out;
  Matcher matcher(config, index, out.problems);
  out.trunk = MatchPart(config, index, Part::kTrunk, matcher);
  const bool draft = config.mtp_layers > 0 && index.HasPrefix("mtp.");
  if (draft) {
    out.draft = MatchPart(config, index, Part::kDraft, matcher);
  } else if (config.mtp_layers > 0) {
    out.notes.Add("there is no draft head (mtp.safetensors): no speculative decoding");
  }
  if (config.vision && index.HasPrefix("vision_tower.")) {
    out.vision = MatchPart(config, index, Part::kVision, matcher);
  } else if (config.vision) {
    out.notes.Add("there is no vision tower (vision_tower.*): no pictures");
  }
  MatchExperts(config, draft, matcher, out);
  MatchNgrams(config, matcher, out);
  NoteLeftovers(index, matcher.used(), out.notes);
  return out;
}

}  // namespace slotstream::checkpoint
