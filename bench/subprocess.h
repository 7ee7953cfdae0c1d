// A program run beside this one, spoken to in lines.
#pragma once

#include <sys/types.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace slotstream::bench {

// Its standard error is ours. Not thread-safe.
class Subprocess {
 public:
  // kIo when the program cannot be started. `arguments` begin with its path.
  static Result<std::unique_ptr<Subprocess>> Start(const std::vector<std::string>& arguments);
  // Closes its input and waits for its end.
  ~Subprocess();
  Subprocess(const Subprocess&) = delete;
  Subprocess& operator=(const Subprocess&) = delete;

  // Writes a line; a process that has gone shows when its answer is read.
  void WriteLine(const std::string& line);
  // Its next line without the line's end. kIo when it has closed its output.
  Result<std::string> ReadLine();
  // All it has yet to say, and then its exit status, which must be 0.
  Result<std::string> ReadAll();

 private:
  Subprocess() = default;
  Status Wait();

  std::string program_;
  pid_t pid_ = -1;
  FILE* input_ = nullptr;
  FILE* output_ = nullptr;
};

}  // namespace slotstream::bench
