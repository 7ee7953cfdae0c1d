// Server-sent events.
#pragma once

#include <string>
#include <string_view>

#include "server/json_fields.h"

namespace slotstream::server {

inline constexpr std::string_view kEventStream = "text/event-stream; charset=utf-8";

inline std::string SseData(const Json& data) { return "data: " + Dump(data) + "\n\n"; }

// With the name of the event, as Anthropic's and OpenAI's responses need it.
inline std::string SseEvent(std::string_view name, const Json& data) {
  return "event: " + std::string(name) + "\ndata: " + Dump(data) + "\n\n";
}

}  // namespace slotstream::server
