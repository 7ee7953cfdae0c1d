// What the keywords of JSON Schema mean to a constraint.
#pragma once

#include <string_view>

#include "generate/json_schema.h"

namespace slotstream::generate {

enum class KeywordKind {
  kKept,        // narrows what may be written, and is kept
  kAnnotation,  // says nothing about validity; so does every unknown word
  kRefused,     // narrows, and can't be kept
};
KeywordKind KindOfKeyword(std::string_view keyword);

// The member, or null.
const Json* MemberOf(const Json& object, const char* name);

// The schema has a keyword that narrows, beside those in `apart`.
bool Narrows(const Json& schema, std::initializer_list<std::string_view> apart = {});

// The types that a name means; 0: no type's name.
TypeSet TypeNamed(std::string_view name);
// The type of a value; a whole number is an integer.
TypeBit TypeOfValue(const Json& value);

// `text` as a part of a JSON pointer.
std::string PointerPart(std::string_view text);

}  // namespace slotstream::generate
