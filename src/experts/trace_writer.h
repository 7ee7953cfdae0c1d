// Writes an expert trace while a model runs.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "experts/expert_trace.h"
#include "io/file_writer.h"

namespace slotstream::experts {

// A thread of its own writes and syncs, so that a slow disk doesn't hold up a pass: Append copies
// two bytes per expert of a token. Append and Finish from one thread at a time.
class TraceWriter {
 public:
  // A new file, or an existing one emptied. Errors are io::FileWriter's.
  static Result<std::unique_ptr<TraceWriter>> Create(const std::string& path);
  // Without Finish the file ends somewhere, as after a kill.
  ~TraceWriter();

  // Comes first, once. kUnsupported for more layers or experts than the format can name.
  Status Begin(const TraceHeader& header);
  // `chosen` is [rows, top_k], by rank.
  void Append(const TraceVisit& visit, std::span<const uint32_t> chosen);
  // Writes what is left and the end; the first error of any write.
  Status Finish();

 private:
  explicit TraceWriter(std::unique_ptr<io::FileWriter> file);

  template <typename T>
  void AppendBytes(const T& value);
  void HandOver(bool wait);
  void Stop();
  void WriterLoop();

  std::unique_ptr<io::FileWriter> file_;
  std::vector<std::byte> filling_;
  uint32_t visits_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::byte> writing_;  // the thread's while busy_
  bool busy_ = false;
  bool stop_ = false;
  Status status_;
  std::thread thread_;
};

}  // namespace slotstream::experts
