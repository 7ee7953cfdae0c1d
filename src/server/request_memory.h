// What requests take of the machine's memory, for the plan (docs/MEMORY.md). Bounds of several
// places come together here: the connections' (HttpLimits), the work threads' (WorkQueue: one large
// body at a time), and what is kept of those that wait (Service).
#pragma once

#include <cstdint>

#include "engine/request.h"
#include "server/server.h"

namespace slotstream::server {

// Larger bodies are read one at a time. What a smaller one may cost is bounded by its bytes alone.
inline constexpr uint64_t kLargeBody = 128 << 10;

// Sets the bounds of `options` for a process that may take `memory` bytes.
void LimitRequests(uint64_t memory, ServerOptions& options);

// What is kept of a request from when its prompt is encoded until its reply ends.
uint64_t KeptBytes(const engine::Request& request);

// All that requests take with these bounds, at most.
uint64_t MostRequestBytes(const ServerOptions& options);

}  // namespace slotstream::server
