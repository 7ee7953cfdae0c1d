// What the packer writes through: files that grow in whole chunks or pages, each with its checksum.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/packed_layout.h"
#include "io/file_writer.h"

namespace slotstream::checkpoint {

// A part file or experts.bin: bytes go in, whole chunks come out, and a CRC-32C for each goes to
// checksums.bin. One thread.
class ChunkStream {
 public:
  // Continues `data`, whose length is a multiple of a chunk or record. Since only whole chunks are
  // handed on, `data` and `checksums` can be synced and journaled at any moment.
  ChunkStream(io::FileWriter& data, io::FileWriter& checksums)
      : data_(data), checksums_(checksums), position_(data.size()) {}

  // Bytes of the file, those still held back included.
  uint64_t position() const { return position_; }
  // Errors: those of io::FileWriter.
  Status Append(std::span<const std::byte> bytes);
  Status AppendZeros(uint64_t count);
  // Writes what is held back as a shorter chunk: the end of a part or a record.
  Status EndChunk();

 private:
  Status Write(std::span<const std::byte> chunk);

  io::FileWriter& data_;
  io::FileWriter& checksums_;
  uint64_t position_;
  std::vector<std::byte> held_;  // the begun chunk
};

// Fills pages of ngram.bin from rows in order. One thread.
class PageStream {
 public:
  PageStream(io::FileWriter& data, const NgramTableLayout& table)
      : data_(data), table_(table), page_(data.size() / kPageSize) {}

  // `rows` holds whole rows, as many as fit the page (fewer in the table's last one).
  Status AppendPage(std::span<const std::byte> rows);

 private:
  io::FileWriter& data_;
  const NgramTableLayout& table_;
  uint64_t page_;
};

}  // namespace slotstream::checkpoint
