// What a request wants its reply to be held to, and the constraint for it.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "base/result.h"
#include "text/json_text.h"

namespace slotstream::generate {

struct Constraint;

struct ReplyShape {
  enum class Document { kNone, kAnyObject, kSchema };
  Document document = Document::kNone;
  text::OrderedJson schema;  // of kSchema
  std::string schema_place;  // how messages call it, e.g. "format"

  enum class Calls {
    kFree,    // calls are not held to anything; with a document: there are none
    kStrict,  // the reply may call; a call that it begins names a tool, with valid arguments
    kForced,  // the reply is one call or several
  };
  Calls calls = Calls::kFree;
  text::OrderedJson tools;       // OpenAI function objects
  std::set<std::string> strict;  // those whose schemas must be kept whole
  std::string tool;              // of kForced: the only one; empty: any

  // Nothing is asked.
  bool Free() const { return document == Document::kNone && calls == Calls::kFree; }
};

// Errors: see SchemaCompiler; kUnsupported where no tool can be called.
Result<std::shared_ptr<const Constraint>> MakeConstraint(const ReplyShape& shape);

}  // namespace slotstream::generate
