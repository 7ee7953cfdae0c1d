#include "checkpoint/describe.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "checkpoint/expected_tensors.h"
#include "checkpoint/original_checkpoint.h"
#include "checkpoint/packed_checkpoint.h"
#include "checkpoint/packed_files.h"

namespace slotstream::checkpoint {
namespace {

uint64_t Parameters(const ModelConfig& config, Part part) {
  uint64_t sum = 0;
  for (const ExpectedTensor& tensor : ExpectedTensors(config, part)) {
    sum += uint64_t{tensor.n} * tensor.k;
  }
  return sum;
}

void AddResidentPart(const char* name, Part part, const ResidentLayout& layout, Description& out) {
  out.parts.push_back({.name = name,
                       .parameters = Parameters(*out.config, part),
                       .bytes = layout.bytes,
                       .resident = true});
  out.resident_bytes += layout.bytes;
}

// `bytes`: of the file; fewer than the records' where it is folded.
void AddExperts(const ExpertShape& shape, uint64_t records, uint64_t record_bytes, uint64_t bytes,
                Description& out) {
  const ModelConfig& config = *out.config;
  out.expert_records = records;
  out.expert_record_bytes = record_bytes;
  const uint64_t values = uint64_t{shape.gate.n} * shape.gate.k +
                          uint64_t{shape.up.n} * shape.up.k + uint64_t{shape.down.n} * shape.down.k;
  out.parts.push_back(
      {.name = "experts", .parameters = records * values, .bytes = bytes, .resident = false});
  out.expert_bytes_per_token =
      uint64_t{config.num_layers()} * config.experts_per_token * record_bytes;
}

// `read_bytes`: what the disk delivers for one row.
void AddNgrams(uint64_t rows, uint64_t width, uint64_t row_bytes, uint64_t bytes,
               uint64_t read_bytes, Description& out) {
  const ModelConfig& config = *out.config;
  out.ngram_rows = rows;
  out.ngram_row_bytes = row_bytes;
  out.parts.push_back(
      {.name = "n-grams", .parameters = rows * width, .bytes = bytes, .resident = false});
  out.ngram_bytes_per_token = config.ple_layers.size() * config.ngram_heads() * read_bytes;
}

void DescribeOriginal(Description& out) {
  Result<OriginalContents> contents = ExamineOriginal(out.directory, /*direct=*/false);
  if (!contents) {
    out.problems.push_back(contents.error().message);
    return;
  }
  out.config = contents->config;
  const Inventory& inventory = contents->inventory;
  for (const Error& error : contents->index.problems) out.problems.push_back(error.message);
  for (std::string& line : inventory.problems.Lines()) out.problems.push_back(std::move(line));
  out.notes = inventory.notes.Lines();

  AddResidentPart("trunk", Part::kTrunk, inventory.trunk.layout, out);
  if (inventory.draft) AddResidentPart("draft head", Part::kDraft, inventory.draft->layout, out);
  if (inventory.vision) {
    AddResidentPart("vision tower", Part::kVision, inventory.vision->layout, out);
  }
  const uint64_t records = inventory.experts.size() * uint64_t{out.config->num_experts};
  AddExperts(inventory.expert, records, inventory.expert.bytes(),
             records * inventory.expert.bytes(), out);
  if (inventory.ngrams.empty()) return;
  uint64_t rows = 0;
  for (const NgramTableSource& table : inventory.ngrams) rows += table.rows;
  const NgramTableSource& table = inventory.ngrams.front();
  const uint64_t row_bytes = table.width / 2 + uint64_t{table.width} / table.group * 4;
  // Words, scales and biases lie in three places, each of which costs a page.
  AddNgrams(rows, table.width, row_bytes, rows * row_bytes, 3 * kPageSize, out);
}

void DescribePacked(Description& out) {
  Result<PackedHeader> header = ReadPackedHeader(out.directory);
  if (!header) {
    out.problems.push_back(header.error().message);
    return;
  }
  out.config = header->config;
  const PackedLayout& layout = header->manifest.layout;
  AddResidentPart("trunk", Part::kTrunk, layout.trunk, out);
  if (layout.draft) AddResidentPart("draft head", Part::kDraft, *layout.draft, out);
  if (layout.vision) AddResidentPart("vision tower", Part::kVision, *layout.vision, out);
  AddExperts(layout.expert, layout.records(), layout.expert.record_bytes(), layout.experts_bytes(),
             out);
  if (!layout.ngrams.empty()) {
    uint64_t rows = 0;
    for (const NgramTableLayout& table : layout.ngrams) rows += table.rows;
    const NgramTableLayout& table = layout.ngrams.front();
    AddNgrams(rows, table.width, table.row_bytes(), layout.ngram_bytes(), kPageSize, out);
  }
  if (!layout.draft) out.notes.push_back("there is no draft head: no speculative decoding");
  if (!layout.vision) out.notes.push_back("there is no vision tower: no pictures");
  if (layout.fold > 1) {
    out.notes.push_back(
        fmt::format("folded: {} expert records and {} n-gram pages are stored, each for {} of the "
                    "model's; for measurements only",
                    layout.stored_records(), layout.stored_ngram_pages(), layout.fold));
  }
  auto opened = PackedCheckpoint::Open(out.directory, {.direct = false});
  if (!opened) out.problems.push_back(opened.error().message);
}

// 1234567 as "1,234,567".
std::string Grouped(uint64_t value) {
  const std::string digits = std::to_string(value);
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

void FormatGeometry(const Description& d, std::vector<std::string>& out) {
  const ModelConfig& c = *d.config;
  const auto full = std::ranges::count(c.layers, LayerKind::kFullAttention);
  out.push_back(fmt::format("model      qwen4_exp, {} layers ({} linear, {} sparse attention)",
                            c.num_layers(), c.num_layers() - full, full));
  out.push_back(fmt::format("           hidden {}, {} residual streams, vocabulary {}, context {}",
                            c.hidden_size, c.hc_count, Grouped(c.vocab_size),
                            Grouped(c.max_position_embeddings)));
  out.push_back(fmt::format("experts    {} per layer, {} per token, {} records of {} bytes",
                            c.num_experts, c.experts_per_token, Grouped(d.expert_records),
                            Grouped(d.expert_record_bytes)));
  if (!c.ple_layers.empty()) {
    out.push_back(fmt::format("n-grams    {} table(s), {} rows of {} bytes, {} rows per token",
                              c.ple_layers.size(), Grouped(d.ngram_rows), d.ngram_row_bytes,
                              c.ple_layers.size() * c.ngram_heads()));
  }
}

void FormatSizes(const Description& d, std::vector<std::string>& out) {
  out.push_back(fmt::format("{:<14} {:>18} {:>18}", "part", "parameters", "bytes"));
  uint64_t parameters = 0;
  uint64_t bytes = 0;
  for (const PartDescription& part : d.parts) {
    out.push_back(fmt::format("{:<14} {:>18} {:>18}{}", part.name, Grouped(part.parameters),
                              Grouped(part.bytes), part.resident ? "  in memory" : ""));
    parameters += part.parameters;
    bytes += part.bytes;
  }
  out.push_back(fmt::format("{:<14} {:>18} {:>18}", "total", Grouped(parameters), Grouped(bytes)));
  out.push_back(fmt::format("in memory  {} bytes without expert slots and sequences",
                            Grouped(d.resident_bytes)));
  out.push_back(fmt::format("per token  at most {} bytes of experts and {} of n-gram rows are read",
                            Grouped(d.expert_bytes_per_token), Grouped(d.ngram_bytes_per_token)));
}

}  // namespace

Result<Description> Describe(const std::string& directory) {
  Description out;
  out.directory = directory;
  SS_ASSIGN_OR_RETURN(out.form, DetectForm(directory));
  if (out.form == Form::kPacked) {
    DescribePacked(out);
  } else {
    DescribeOriginal(out);
  }
  return out;
}

std::vector<std::string> FormatDescription(const Description& d) {
  std::vector<std::string> out;
  out.push_back(fmt::format("checkpoint {} ({})", d.directory,
                            d.form == Form::kPacked ? "packed" : "original MLX 4-bit safetensors"));
  if (d.config) {
    FormatGeometry(d, out);
    FormatSizes(d, out);
  }
  if (d.problems.empty()) {
    out.push_back("status     nothing missing");
  } else {
    out.push_back(fmt::format("status     not usable, {} problem(s):", d.problems.size()));
    for (const std::string& line : d.problems) out.push_back("  " + line);
  }
  for (const std::string& line : d.notes) out.push_back("note       " + line);
  return out;
}

}  // namespace slotstream::checkpoint
