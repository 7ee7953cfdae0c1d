// Prompts outside of a chat.
#pragma once

#include <string_view>

#include "engine/engine.h"

namespace slotstream::server {

// Makes a request whose text is to be followed by `suffix` one for the text between the two: with
// the tokens that the model has for it, or, where it has none, by asking.
void FillIn(const text::Tokenizer* tokenizer, std::string_view suffix, engine::Request& request);

}  // namespace slotstream::server
