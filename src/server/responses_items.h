// The items of an answer in the form of OpenAI's responses.
#pragma once

#include <string>
#include <string_view>

#include "server/collected_reply.h"
#include "server/id_source.h"
#include "server/json_fields.h"
#include "server/responses_request.h"
#include "text/tokenizer.h"

namespace slotstream::server {

Json ReasoningItem(const std::string& id, const std::string& text, std::string_view status);
// `log_probs`: a list, of the tokens of `text`, where they were asked for.
Json MessageItem(const std::string& id, const std::string& text, std::string_view status,
                 Json log_probs = Json::array());
// A function's or a free-form tool's call, with its name as the client knows it.
Json CallItem(const std::string& id, const CollectedCall& call, const ResponsesTools& tools,
              std::string_view status);
// The free text of a free-form tool's call.
std::string CustomInput(const CollectedCall& call);

// By the name that the model used, with or without its bundle's. Null if no tool can be meant.
const ResponsesTool* FindTool(const ResponsesTools& tools, std::string_view name);

// All items of a whole reply. `tokenizer`: for probabilities; null where there are none.
Json ReplyItems(const CollectedReply& reply, const ResponsesTools& tools,
                const text::Tokenizer* tokenizer, IdSource& ids);

// {"input_tokens", "output_tokens", ...}
Json ResponsesUsage(const generate::GenerationResult& result);

}  // namespace slotstream::server
