// What requests take of the machine's memory, for the plan (docs/MEMORY.md). Bounds of several
// places come together here: the connections' (HttpLimits), the work threads' (WorkQueue: one large
// body at a time), and what is kept of those that wait (Service).
#pragma once

#include <cstdint>

#include "engine/request.h"
#include "server/http_handler.h"

namespace slotstream::server {

// Larger bodies are read one at a time. Agents' requests are some hundred kilobytes.
inline constexpr uint64_t kLargeBody = 1 << 20;

// Of all requests that wait or run. One of 131,072 tokens with the tools of an agent takes less
// than a megabyte; a hostile one, by its tools, as much as this.
inline constexpr uint64_t kMostKeptBytes = 96 << 20;

// What is kept of a request from when its prompt is encoded until its reply ends.
uint64_t KeptBytes(const engine::Request& request);

// All of it at most.
uint64_t MostRequestBytes(const HttpLimits& limits);

}  // namespace slotstream::server
