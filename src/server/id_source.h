// Names that no other answer has, also not one of an earlier run of the server.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace slotstream::server {

// Thread-safe.
class IdSource {
 public:
  IdSource();  // begins at a random place

  uint64_t Number();
  // `prefix` and 24 hexadecimal digits.
  std::string Next(std::string_view prefix);

 private:
  const uint64_t start_;
  std::atomic<uint64_t> count_ = 0;
};

}  // namespace slotstream::server
