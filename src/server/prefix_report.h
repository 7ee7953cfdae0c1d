// The prefix cache as /metrics and /slotstream/status show it.
#pragma once

#include <functional>
#include <string_view>

#include "engine/prefix_reuse.h"
#include "server/json_fields.h"

namespace slotstream::server {

using MetricSink = std::function<void(std::string_view name, std::string_view type,
                                      std::string_view help, double value)>;

// Nothing while the model loads (null).
void AddPrefixMetrics(const engine::PrefixReuse* prefixes, const MetricSink& add);

Json PrefixStatus(const engine::PrefixReuse& prefixes);

}  // namespace slotstream::server
