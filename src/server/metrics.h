// GET /metrics: what an operator's Prometheus reads.
#pragma once

#include <string>

#include "server/service.h"

namespace slotstream::server {

// Prometheus' text format, version 0.0.4: base units, counters end in _total, every metric with its
// HELP and TYPE.
std::string Metrics(Service& service);

}  // namespace slotstream::server
