#include "generate/reply_parser.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace slotstream::generate {
namespace {

const text::Tokenizer& Miniature() {
  static const Result<text::Tokenizer> tokenizer =
      text::Tokenizer::Load(SLOTSTREAM_SOURCE_DIR "/models/miniature/tokenizer.json");
  EXPECT_TRUE(tokenizer);
  return *tokenizer;
}

const text::ToolSchemas& Tools() {
  static const text::ToolSchemas tools = text::ToolSchemas::FromTools(text::OrderedJson::parse(R"([
    {"type": "function", "function": {"name": "search", "parameters": {"type": "object",
      "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}}}}}])"));
  return tools;
}

// Consecutive events of a kind that come in fragments become one.
std::vector<ReplyEvent> Joined(const std::vector<ReplyEvent>& events) {
  std::vector<ReplyEvent> joined;
  for (const ReplyEvent& event : events) {
    const bool fragment = event.kind == ReplyEvent::Kind::kReasoning ||
                          event.kind == ReplyEvent::Kind::kText ||
                          event.kind == ReplyEvent::Kind::kCallArguments;
    if (fragment && !joined.empty() && joined.back().kind == event.kind) {
      joined.back().text += event.text;
    } else {
      joined.push_back(event);
    }
  }
  return joined;
}

struct Parsed {
  std::vector<ReplyEvent> events;
  std::optional<std::string> stop;
};

Parsed Parse(const std::vector<text::TokenId>& ids, const ReplyOptions& options) {
  ReplyParser parser(Miniature(), options);
  std::vector<ReplyEvent> events;
  for (text::TokenId id : ids) EXPECT_TRUE(parser.Push(id, events));
  parser.Flush(events);
  return {Joined(events), parser.stop()};
}

// The ids of `text` cut into pieces that are encoded one by one.
std::vector<text::TokenId> EncodeInPieces(const std::string& text, size_t longest,
                                          std::mt19937& rng) {
  std::vector<text::TokenId> ids;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.size(), at + 1 + rng() % longest);
    while (end < text.size() && (text[end] & 0xc0) == 0x80) ++end;  // not inside a character
    const auto piece = Miniature().Encode(text.substr(at, end - at));
    EXPECT_TRUE(piece);
    ids.insert(ids.end(), piece->begin(), piece->end());
    at = end;
  }
  return ids;
}

// As the model would write it, and cut in every way.
Parsed ParseAnyhow(const std::string& text, const ReplyOptions& options) {
  const auto whole = Miniature().Encode(text);
  EXPECT_TRUE(whole);
  Parsed expected = Parse(*whole, options);
  std::mt19937 rng(17);
  for (const size_t longest : {1, 2, 3, 5, 9}) {
    for (int i = 0; i < (longest == 1 ? 1 : 15); ++i) {
      const Parsed other = Parse(EncodeInPieces(text, longest, rng), options);
      EXPECT_EQ(other.stop, expected.stop) << text;
      EXPECT_EQ(other.events.size(), expected.events.size()) << text;
      for (size_t e = 0; e < std::min(other.events.size(), expected.events.size()); ++e) {
        EXPECT_EQ(other.events[e].kind, expected.events[e].kind) << text;
        EXPECT_EQ(other.events[e].text, expected.events[e].text) << text;
        EXPECT_EQ(other.events[e].name, expected.events[e].name) << text;
        EXPECT_EQ(other.events[e].id, expected.events[e].id) << text;
        EXPECT_EQ(other.events[e].declared, expected.events[e].declared) << text;
      }
    }
  }
  return expected;
}

void ExpectEvents(const Parsed& parsed,
                  const std::vector<std::pair<ReplyEvent::Kind, std::string>>& expected) {
  ASSERT_EQ(parsed.events.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(parsed.events[i].kind, expected[i].first) << i;
    EXPECT_EQ(parsed.events[i].text, expected[i].second) << i;
  }
}

using Kind = ReplyEvent::Kind;

constexpr char kCall[] =
    "<tool_call>\n<function=search>\n<parameter=query>\ncold STOP seas\n</parameter>\n"
    "<parameter=limit>\n3\n</parameter>\n</function>\n</tool_call>";

TEST(ReplyParser, PlainTextOfAllKinds) {
  ExpectEvents(ParseAnyhow("Grüße, 世界 🌍! <b>a < b</b>", {}),
               {{Kind::kText, "Grüße, 世界 🌍! <b>a < b</b>"}});
  ExpectEvents(ParseAnyhow("", {}), {});
}

TEST(ReplyParser, ReasoningThenAnswer) {
  ReplyOptions options;
  options.thinking = true;
  ExpectEvents(ParseAnyhow("Is it </thin> air?\n</think>\n\nYes: </think> twice.", options),
               {{Kind::kReasoning, "Is it </thin> air?\n"}, {Kind::kText, "Yes: </think> twice."}});
  ExpectEvents(ParseAnyhow("never done </thi", options), {{Kind::kReasoning, "never done </thi"}});
  options.thinking = false;
  ExpectEvents(ParseAnyhow("no </think> here", options), {{Kind::kText, "no </think> here"}});
}

TEST(ReplyParser, StopStringsAcrossTokens) {
  ReplyOptions options;
  options.stop = {"STOP", " the end"};
  Parsed parsed = ParseAnyhow("It says S, ST, STO and STOP, then more <tool_call>", options);
  ExpectEvents(parsed, {{Kind::kText, "It says S, ST, STO and "}});
  EXPECT_EQ(parsed.stop, "STOP");
  parsed = ParseAnyhow("At the en the end of it", options);
  ExpectEvents(parsed, {{Kind::kText, "At the en"}});
  EXPECT_EQ(parsed.stop, " the end");
  parsed = ParseAnyhow("At last STO", options);
  ExpectEvents(parsed, {{Kind::kText, "At last STO"}});
  EXPECT_EQ(parsed.stop, std::nullopt);
}

TEST(ReplyParser, StopStringsAreNotLookedForInReasoning) {
  ReplyOptions options;
  options.thinking = true;
  options.stop = {"STOP", "\n\nX"};
  const Parsed parsed = ParseAnyhow("Do I STOP?\n\nX</think>\n\nXyz STOP now", options);
  ExpectEvents(parsed, {{Kind::kReasoning, "Do I STOP?\n\nX"}, {Kind::kText, "Xyz "}});
  EXPECT_EQ(parsed.stop, "STOP");
}

TEST(ReplyParser, ToolCalls) {
  ReplyOptions options;
  options.thinking = true;
  options.tools = &Tools();
  options.first_call_id = 7;
  const Parsed parsed =
      ParseAnyhow(std::string("Look.</think>\n\nSearching.\n") + kCall + "\n" + kCall, options);
  ASSERT_GE(parsed.events.size(), 5u);
  EXPECT_EQ(parsed.events[0].text, "Look.");
  EXPECT_EQ(parsed.events[1].kind, Kind::kText);
  std::string arguments;
  std::vector<std::string> ids;
  size_t ends = 0;
  for (const ReplyEvent& event : parsed.events) {
    if (event.kind == Kind::kCallBegin) {
      EXPECT_EQ(event.name, "search");
      EXPECT_TRUE(event.declared);
      ids.push_back(event.id);
    }
    if (event.kind == Kind::kCallArguments) arguments += event.text;
    ends += event.kind == Kind::kCallEnd;
  }
  EXPECT_EQ(ids, (std::vector<std::string>{text::FormatCallId(7), text::FormatCallId(8)}));
  EXPECT_EQ(ends, 2u);
  const std::string once = R"({"query": "cold STOP seas", "limit": 3})";
  EXPECT_EQ(text::OrderedJson::parse("[" + arguments.substr(0, arguments.size() / 2) + "]"),
            text::OrderedJson::parse("[" + once + "]"));
  EXPECT_EQ(arguments.substr(0, arguments.size() / 2), arguments.substr(arguments.size() / 2));
}

TEST(ReplyParser, WithoutToolsCallsAreText) {
  ExpectEvents(ParseAnyhow(kCall, {}), {{Kind::kText, kCall}});
}

// A stop string ends the reply inside a call: the call is void.
TEST(ReplyParser, StopInACall) {
  ReplyOptions options;
  options.tools = &Tools();
  options.stop = {"STOP"};
  const Parsed parsed = ParseAnyhow(std::string("Hm. ") + kCall, options);
  EXPECT_EQ(parsed.stop, "STOP");
  ASSERT_FALSE(parsed.events.empty());
  EXPECT_EQ(parsed.events.front().text, "Hm. ");
  EXPECT_EQ(parsed.events.back().kind, Kind::kCallMalformed);
  EXPECT_EQ(parsed.events.back().text, "<tool_call>\n<function=search>\n<parameter=query>\ncold ");
}

// Characters cut inside: the tokens of a byte each, if the vocabulary has them all.
TEST(ReplyParser, CharactersInPieces) {
  const std::string text = "é世🌍";
  std::vector<text::TokenId> ids;
  for (char byte : text) {
    for (text::TokenId id = 0; id < Miniature().vocab_size(); ++id) {
      const auto bytes = Miniature().TokenBytes(id);
      if (bytes && *bytes == std::string_view(&byte, 1)) {
        ids.push_back(id);
        break;
      }
    }
  }
  ASSERT_EQ(ids.size(), text.size());
  ExpectEvents(Parse(ids, {}), {{Kind::kText, text}});
  ids.pop_back();
  ExpectEvents(Parse(ids, {}), {{Kind::kText, "é世\uFFFD"}});
}

TEST(ReplyParser, AnIdWithoutATokenIsAnError) {
  ReplyParser parser(Miniature(), {});
  std::vector<ReplyEvent> events;
  const Status status = parser.Push(Miniature().vocab_size(), events);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(events.empty());
}

}  // namespace
}  // namespace slotstream::generate
