#include "experts/expert_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "base/crc32c.h"
#include "experts/trace_format.h"
#include "io/file.h"

namespace slotstream::experts {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 20;

// The bytes of a file one after another.
class Reader {
 public:
  explicit Reader(const io::File& file) : file_(file) {}

  uint64_t offset() const { return offset_; }
  uint64_t left() const { return file_.size() - offset_; }

  // The next `count` bytes, at most left(); valid until the next call.
  Result<std::span<const std::byte>> Take(size_t count) {
    if (buffer_.size() - used_ < count) {
      buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<ptrdiff_t>(used_));
      used_ = 0;
      const size_t have = buffer_.size();
      buffer_.resize(std::min<uint64_t>(std::max(count, kChunkBytes), left()));
      SS_RETURN_IF_ERROR(file_.ReadAt(offset_ + have, std::span(buffer_).subspan(have)));
    }
    const auto taken = std::span(buffer_).subspan(used_, count);
    used_ += count;
    offset_ += count;
    return taken;
  }

 private:
  const io::File& file_;
  uint64_t offset_ = 0;  // of the next byte taken
  std::vector<std::byte> buffer_;
  size_t used_ = 0;
};

class Parser {
 public:
  explicit Parser(const io::File& file) : path_(file.path()), reader_(file) {}

  Result<Trace> Parse() {
    SS_RETURN_IF_ERROR(ParseHeader());
    row_of_.resize(trace_.header.experts, 0);
    count_.resize(trace_.header.experts, 0);
    trace_.begin.push_back(0);
    for (;;) {
      const uint64_t at = reader_.offset();
      TraceFileRecord record;
      if (reader_.left() < sizeof(record)) break;
      SS_ASSIGN_OR_RETURN(auto bytes, reader_.Take(sizeof(record)));
      std::memcpy(&record, bytes.data(), sizeof(record));
      if (record.layer == kTraceEnd) {
        SS_RETURN_IF_ERROR(CheckEnd(record, at));
        trace_.complete = true;
        break;
      }
      SS_RETURN_IF_ERROR(CheckRecord(record, at));
      const uint64_t size = uint64_t{record.rows} * trace_.header.top_k * sizeof(uint16_t);
      if (reader_.left() < size) break;
      SS_ASSIGN_OR_RETURN(bytes, reader_.Take(size));
      SS_RETURN_IF_ERROR(AddVisit(record, bytes, at));
    }
    return std::move(trace_);
  }

 private:
  std::unexpected<Error> Corrupt(uint64_t at, std::string what) const {
    return Fail(ErrorCode::kCorrupt,
                fmt::format("{}: the record at offset {} {}; the file is damaged, record it again",
                            path_, at, what));
  }

  Status ParseHeader() {
    TraceFileHeader header = {};
    const size_t size = std::min<uint64_t>(sizeof(header), reader_.left());
    SS_ASSIGN_OR_RETURN(const auto bytes, reader_.Take(size));
    std::memcpy(&header, bytes.data(), size);
    if (header.magic != kTraceMagic) {
      return Fail(
          ErrorCode::kInvalidArgument,
          fmt::format("{} is no expert trace; `slotstream run --trace FILE` writes one", path_));
    }
    if (size == sizeof(header) && header.version != kTraceVersion) {
      return Fail(ErrorCode::kUnsupported,
                  fmt::format("{} is an expert trace of version {}; this program reads version {}",
                              path_, header.version, kTraceVersion));
    }
    const bool right = size == sizeof(header) && Crc32c(bytes.first(size - 4)) == header.crc;
    const uint64_t experts = uint64_t{header.layers} * header.experts;
    if (!right || header.layers >= kTraceEnd || experts == 0 || experts > kMaxTraceExperts ||
        header.experts > uint32_t{UINT16_MAX} + 1 || header.top_k == 0 ||
        header.top_k > header.experts) {
      return Fail(ErrorCode::kCorrupt,
                  fmt::format("{}: the trace's first {} bytes are damaged; record it again", path_,
                              sizeof(header)));
    }
    trace_.header = {.layers = header.layers,
                     .experts = header.experts,
                     .top_k = header.top_k,
                     .sweep_rows = header.sweep_rows};
    return {};
  }

  Status CheckEnd(const TraceFileRecord& record, uint64_t at) const {
    if (record.position != static_cast<uint32_t>(trace_.visits.size())) {
      return Corrupt(at, fmt::format("ends the trace after {} visits, but there are {}",
                                     record.position, trace_.visits.size()));
    }
    if (reader_.left() > 0) {
      return Corrupt(at, fmt::format("ends the trace, but {} bytes follow", reader_.left()));
    }
    return {};
  }

  Status CheckRecord(const TraceFileRecord& record, uint64_t at) const {
    if (record.layer >= trace_.header.layers) {
      return Corrupt(at, fmt::format("names layer {} of {}", record.layer, trace_.header.layers));
    }
    if ((record.flags & ~(kTracePrompt | kTraceAdmit)) != 0) {
      return Corrupt(at, fmt::format("has unknown flags {:#x}", record.flags));
    }
    if (record.rows == 0 || record.rows > kMaxTraceRows) {
      return Corrupt(at, fmt::format("is of a pass of {} tokens", record.rows));
    }
    return {};
  }

  Status AddVisit(const TraceFileRecord& record, std::span<const std::byte> bytes, uint64_t at) {
    const uint32_t top_k = trace_.header.top_k;
    for (uint32_t row = 0; row < record.rows; ++row) {
      ++rows_;
      for (uint32_t rank = 0; rank < top_k; ++rank) {
        uint16_t expert;
        std::memcpy(&expert, bytes.data() + (size_t{row} * top_k + rank) * sizeof(expert),
                    sizeof(expert));
        if (expert >= trace_.header.experts) {
          return Corrupt(at, fmt::format("names expert {} of {}", expert, trace_.header.experts));
        }
        if (std::exchange(row_of_[expert], rows_) == rows_) {
          return Corrupt(at, fmt::format("names expert {} twice for one token", expert));
        }
        if (count_[expert]++ == 0) trace_.needs.push_back({expert, 0});
      }
    }
    const auto needs = std::span(trace_.needs).subspan(trace_.begin.back());
    std::ranges::sort(needs, {}, &ExpertNeed::expert);
    for (ExpertNeed& need : needs) need.rows = std::exchange(count_[need.expert], 0);
    trace_.begin.push_back(trace_.needs.size());
    trace_.visits.push_back({.position = record.position,
                             .layer = record.layer,
                             .rows = record.rows,
                             .prompt = (record.flags & kTracePrompt) != 0,
                             .admit = (record.flags & kTraceAdmit) != 0});
    return {};
  }

  std::string path_;
  Reader reader_;
  Trace trace_;
  uint64_t rows_ = 0;             // of all visits so far
  std::vector<uint64_t> row_of_;  // per expert: the last row that chose it
  std::vector<uint32_t> count_;   // per expert: rows of this visit
};

}  // namespace

Result<Trace> ReadTrace(const std::string& path) {
  SS_ASSIGN_OR_RETURN(const std::unique_ptr<io::File> file, io::File::Open(path, /*direct=*/false));
  return Parser(*file).Parse();
}

}  // namespace slotstream::experts
