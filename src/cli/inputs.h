// What a user types or gives as a file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace slotstream::cli {

// Numbers separated by commas or blanks. kInvalidArgument names the first thing that is neither.
Result<std::vector<uint32_t>> ParseIds(std::string_view text);

// The contents of a text file given as a flag; "-" is standard input.
Result<std::string> ReadTextFile(const std::string& path);

}  // namespace slotstream::cli
