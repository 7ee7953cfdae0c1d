#include "checkpoint/ngram_reader.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "checkpoint/staged_read.h"

namespace slotstream::checkpoint {

Status ReadNgramRuns(const TensorIndex& index, const NgramTableSource& table, uint64_t begin,
                     uint64_t run, io::ReadQueue& queue,
                     const std::function<Status(std::span<const std::byte> rows)>& consume) {
  const size_t words = table.width / 2;
  const size_t scales = size_t{table.width} / table.group * 2;
  const size_t row_bytes = words + 2 * scales;
  std::vector<std::byte> rows;

  // Calls fn(shard, first row within it, count) for each shard that a run touches.
  auto for_shards = [&](size_t job, const auto& fn) {
    const uint64_t first = begin + job * run;
    const uint64_t last = std::min(first + run, table.rows);
    for (uint64_t row = first; row < last;) {
      const uint64_t within = row % table.rows_per_shard;
      const uint64_t count = std::min(last - row, table.rows_per_shard - within);
      fn(table.shards[row / table.rows_per_shard], within, count);
      row += count;
    }
  };
  auto describe = [&](size_t job, std::vector<FileRange>& out) {
    for_shards(job, [&](const MatrixSource& shard, uint64_t within, uint64_t count) {
      auto add = [&](const TensorSource& piece, size_t bytes) {
        out.push_back(
            {&index.files[piece.file]->file(), piece.offset + within * bytes, count * bytes});
      };
      add(shard.weight, words);
      add(shard.scales, scales);
      add(shard.biases, scales);
    });
  };
  auto arrange = [&](size_t job, std::span<const std::byte* const> data) -> Status {
    rows.clear();
    for_shards(job, [&](const MatrixSource&, uint64_t, uint64_t count) {
      const size_t at = rows.size();
      rows.resize(at + count * row_bytes);
      for (uint64_t i = 0; i < count; ++i) {
        std::byte* out = rows.data() + at + i * row_bytes;
        std::memcpy(out, data[0] + i * words, words);
        std::memcpy(out + words, data[1] + i * scales, scales);
        std::memcpy(out + words + scales, data[2] + i * scales, scales);
      }
      data = data.subspan(3);
    });
    return consume(rows);
  };
  const uint64_t left = table.rows - std::min(begin, table.rows);
  return ReadStaged(queue, (left + run - 1) / run, describe, arrange);
}

}  // namespace slotstream::checkpoint
