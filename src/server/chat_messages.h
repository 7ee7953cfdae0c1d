// Messages and tools in the form that OpenAI's chat and Ollama's chat have in common.
#pragma once

#include <optional>

#include "server/api_error.h"
#include "server/chat_draft.h"

namespace slotstream::server {

// Reads `messages` into the draft. Roles: system, developer (a system), user, assistant, tool,
// function (a tool). Reasoning as reasoning_content, reasoning or thinking; pictures as parts or as
// `images`; arguments as an object or as JSON text.
std::optional<ApiError> ReadChatMessages(const Json& messages, ChatDraft& draft);

// Reads `tools`: functions, wrapped or flat, and free-form tools, which become functions of one
// text `input`. What only a vendor's own server can run is skipped.
std::optional<ApiError> ReadChatTools(const Json& tools, ChatDraft& draft);

// Reads `tool_choice`: auto, none, required, any, or an object that names a tool. A name that no
// tool has is an error.
std::optional<ApiError> ReadToolChoice(const Json& choice, ChatDraft& draft);

// Checks that `name` is among the draft's tools.
bool HasTool(const ChatDraft& draft, std::string_view name);

// The schema of a tool that takes free text.
const Json& FreeTextParameters();

}  // namespace slotstream::server
