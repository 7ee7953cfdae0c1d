// SHA-256, for files that are identified or checked as a whole.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace slotstream::checkpoint {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void Update(std::span<const std::byte> bytes);
  // 64 lower-case hexadecimal digits; ends the hash. kInternal when the library failed.
  Result<std::string> Hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

Result<std::string> Sha256Hex(std::span<const std::byte> bytes);

}  // namespace slotstream::checkpoint
