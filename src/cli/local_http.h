// Asks a server of this machine.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace slotstream::cli {

struct LocalAnswer {
  int status = 0;
  std::string body;  // at most 1 MiB
};

// GET `path`, with `key` as bearer where it isn't empty. `host` is an address as servers bind it:
// 0.0.0.0 and :: are asked through the loopback. Errors: kNotFound (nobody listens), kIo (no answer
// within `limit`, or one that is no HTTP).
Result<LocalAnswer> GetLocal(const std::string& host, uint16_t port, const std::string& path,
                             const std::string& key, std::chrono::milliseconds limit);

// "127.0.0.1:11434" or "[::1]:11434", for a URL.
std::string LocalAddress(const std::string& host, uint16_t port);

}  // namespace slotstream::cli
