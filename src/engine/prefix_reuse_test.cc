// Conversations that go on, are asked again, edited, cancelled, restored: only what is new is read,
// and the bits are a cold run's.
#include "engine/prefix_reuse.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/prefix_identity.h"
#include "engine/prefix_test_support.h"

namespace slotstream::engine {
namespace {

class PrefixReuseTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { cold_ = MakeEngine(0).release(); }
  static void TearDownTestSuite() { delete cold_; }

  // The same ids, read from their beginning by an engine that has seen nothing.
  static void ExpectAsCold(Engine& engine, const Request& request, const Outcome& outcome) {
    Request same = request;
    same.ids = engine.Encode(request).value().ids;
    const Outcome cold = RunRequest(*cold_, same);
    ASSERT_EQ(cold.result->cached_tokens, 0u);
    EXPECT_EQ(outcome.result->prompt_tokens, cold.result->prompt_tokens);
    EXPECT_EQ(outcome.result->output, cold.result->output);
  }

  static inline Engine* cold_ = nullptr;
};

TEST_F(PrefixReuseTest, AConversationOfFourThousandTokens) {
  const auto engine = MakeEngine(kCacheBytes);
  std::vector<text::ChatMessage> messages = {Message(text::Role::kSystem, LongText(600)),
                                             Message(text::Role::kUser, LongText(3400))};
  const Outcome first = RunRequest(*engine, Ask(messages));
  EXPECT_EQ(first.result->cached_tokens, 0u);
  ASSERT_GT(first.result->prompt_tokens, 4000u);

  messages.push_back(first.reply);
  messages.push_back(Message(text::Role::kUser, "And then?"));
  const Request second = Ask(messages);
  const Outcome next = RunRequest(*engine, second);
  // All but the reply's last token, which was never read.
  EXPECT_EQ(next.result->cached_tokens,
            first.result->prompt_tokens + first.result->output.size() - 1)
      << next.result->prefix_note;
  EXPECT_LT(next.read(), 40u);
  ExpectAsCold(*engine, second, next);

  // Again, with another seed or settings: one token.
  const Outcome again = RunRequest(*engine, second);
  EXPECT_EQ(again.read(), 1u);
  EXPECT_EQ(again.result->output, next.result->output);

  // Another last turn.
  messages.back() = Message(text::Role::kUser, "Tell me of an owl instead.");
  const Request edited = Ask(messages);
  const Outcome other = RunRequest(*engine, edited);
  EXPECT_GE(other.result->cached_tokens,
            first.result->prompt_tokens + first.result->output.size() - 1);
  ExpectAsCold(*engine, edited, other);

  // Another conversation with the same system turn reads all but that.
  const Outcome sibling = RunRequest(*engine, Ask({Message(text::Role::kSystem, LongText(600)),
                                                   Message(text::Role::kUser, "Hello.")}));
  EXPECT_GT(sibling.result->cached_tokens, 250u);
  EXPECT_LT(sibling.read(), 30u);
}

TEST_F(PrefixReuseTest, ACancelInMidReply) {
  const auto engine = MakeEngine(kCacheBytes);
  const Request request = Ask({Message(text::Role::kUser, LongText(900))}, 40);
  std::shared_ptr<Job> job;
  std::promise<void> submitted;
  RequestObserver observer;
  std::shared_future<void> ready = submitted.get_future().share();
  observer.generation.on_event = [&](const generate::ReplyEvent&) {
    ready.wait();
    job->Cancel();
  };
  job = engine->Submit(request, observer);
  submitted.set_value();
  const auto cancelled = job->Wait();
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code, ErrorCode::kCancelled);
  const Outcome again = RunRequest(*engine, request);
  EXPECT_EQ(again.read(), 1u);
  ExpectAsCold(*engine, request, again);
}

TEST_F(PrefixReuseTest, ACancelledPrefillIsNotLost) {
  const auto engine = MakeEngine(kCacheBytes);
  const Request request = Ask({Message(text::Role::kUser, LongText(3000))});
  std::shared_ptr<Job> job;
  std::promise<void> submitted;
  std::shared_future<void> ready = submitted.get_future().share();
  RequestObserver observer;
  observer.generation.on_prefill = [&](size_t done, size_t) {
    ready.wait();
    if (done >= 512) job->Cancel();
  };
  job = engine->Submit(request, observer);
  submitted.set_value();
  ASSERT_FALSE(job->Wait());
  const Outcome again = RunRequest(*engine, request);
  EXPECT_EQ(again.result->cached_tokens, 512u) << again.result->prefix_note;
  ExpectAsCold(*engine, request, again);
}

TEST_F(PrefixReuseTest, AfterARestartAndAfterAnEviction) {
  ScratchDirectory scratch;
  const PrefixDiskOptions disk = Disk(scratch.Path("prefixes"), 64);
  std::vector<text::ChatMessage> messages = {Message(text::Role::kUser, LongText(1500))};
  size_t known = 0;
  {
    const auto engine = MakeEngine(kCacheBytes, disk);
    ASSERT_EQ(engine->prefixes().disk_problem(), "");
    const Outcome first = RunRequest(*engine, Ask(messages));
    known = first.result->prompt_tokens + first.result->output.size() - 1;
    messages.push_back(first.reply);
    // Long enough to be worth a write.
    messages.push_back(Message(text::Role::kUser, LongText(80)));
  }
  const auto engine = MakeEngine(kCacheBytes, disk);
  const Request second = Ask(messages);
  const Outcome restored = RunRequest(*engine, second);
  EXPECT_EQ(restored.result->cached_tokens, known) << restored.result->prefix_note;
  EXPECT_TRUE(restored.result->prefix_note.starts_with("disk")) << restored.result->prefix_note;
  ExpectAsCold(*engine, second, restored);
  EXPECT_EQ(engine->prefixes().disk_stats()->hits, 1u);

  engine->prefixes().FlushDisk();
  // The turn wrote its own rows alone.
  const uint64_t fixed = state::SequenceBytes(engine->loaded().config(), 0);
  EXPECT_LT(engine->prefixes().disk_stats()->last_save_bytes, 2 * fixed + 200'000);
  engine->prefixes().SetBudget(0);
  EXPECT_EQ(engine->prefixes().stats().bytes, 0u);
  engine->prefixes().SetBudget(kCacheBytes);
  messages.push_back(restored.reply);
  messages.push_back(Message(text::Role::kUser, "Why?"));
  const Request third = Ask(messages);
  const Outcome after = RunRequest(*engine, third);
  EXPECT_EQ(after.result->cached_tokens,
            restored.result->prompt_tokens + restored.result->output.size() - 1)
      << after.result->prefix_note;
  ExpectAsCold(*engine, third, after);
}

TEST_F(PrefixReuseTest, WhatShallStayOffDiskDoes) {
  ScratchDirectory scratch;
  const PrefixDiskOptions disk = Disk(scratch.Path("prefixes"), 16);
  const auto engine = MakeEngine(kCacheBytes, disk);
  Request request = Ask({Message(text::Role::kUser, LongText(200))});
  request.keep_off_disk = true;
  RunRequest(*engine, request);
  engine->prefixes().FlushDisk();
  EXPECT_EQ(engine->prefixes().disk_stats()->saved, 0u);
  request.keep_off_disk = false;
  RunRequest(*engine, request);
  engine->prefixes().FlushDisk();
  EXPECT_GT(engine->prefixes().disk_stats()->saved, 0u);
}

TEST_F(PrefixReuseTest, ADirectoryThatCannotBeUsedIsNoError) {
  ScratchDirectory scratch;
  const PrefixDiskOptions disk = Disk(scratch.Path("prefixes"), 16);
  const auto first = MakeEngine(kCacheBytes, disk);
  const auto second = MakeEngine(kCacheBytes, disk);
  EXPECT_NE(second->prefixes().disk_problem(), "");
  RunRequest(*second, Ask({Message(text::Role::kUser, "Hello.")}));
  const auto none = MakeEngine(0, Disk(scratch.Path("other"), 16));
  EXPECT_NE(none->prefixes().disk_problem(), "");
}

TEST_F(PrefixReuseTest, TheKeyIsWhatDeterminesTheBits) {
  auto one = LoadForTest(Options(0));
  ASSERT_TRUE(one);
  const auto exact = MakePrefixIdentity((*one)->checkpoint(), kernels::ComputeMode::kExact).value();
  EXPECT_EQ(MakePrefixIdentity((*one)->checkpoint(), kernels::ComputeMode::kExact).value(), exact);
  EXPECT_NE(MakePrefixIdentity((*one)->checkpoint(), kernels::ComputeMode::kInt8).value(), exact);
  ScratchDirectory scratch;
  auto packed = LoadForTest(Options(0, PackInto(scratch, MiniatureDirectory())));
  ASSERT_TRUE(packed);
  EXPECT_TRUE(MakePrefixIdentity((*packed)->checkpoint(), kernels::ComputeMode::kExact));
  LoadOptions other;
  other.directory = TinyDirectory();
  auto tiny = LoadForTest(other);
  if (tiny) {
    EXPECT_NE(MakePrefixIdentity((*tiny)->checkpoint(), kernels::ComputeMode::kExact).value(),
              exact);
  }
}

// What a client sends back, and whether it gets the ids that the reply was made of.
class SpliceTest : public PrefixReuseTest {
 protected:
  SpliceTest() {
    prompt_.messages = {Message(text::Role::kUser, "Look it up.")};
    prompt_.tools = text::OrderedJson::parse(R"([{"type":"function","function":{"name":"find",
        "parameters":{"type":"object","properties":{"a":{},"b":{},
        "all":{"type":"boolean","default":false}}}}}])");
    reply_ = Message(text::Role::kAssistant, "I look.");
    reply_.reasoning = "They want it.";
    reply_.tool_calls = {{"find", text::OrderedJson{{"a", 1}, {"b", {{"c", 2}}}}}};
    Request request;
    request.chat = prompt_;
    const auto ids = EncodePrompt(tokenizer_, request).value().ids;
    PromptHash before;
    before.Add(ids);
    memory_.Remember(before, DigestOf(reply_, prompt_.tools),
                     std::make_shared<std::vector<uint32_t>>(kIds));
    begin_ = ids.size();
  }

  bool Splices(const text::ChatMessage& sent) {
    Request request;
    request.chat = prompt_;
    request.chat->messages.push_back(sent);
    request.chat->messages.push_back(Message(text::Role::kUser, "Go on."));
    request.chat->preserve_thinking = preserve_;
    const EncodedPrompt with = EncodePrompt(tokenizer_, request, &memory_).value();
    const EncodedPrompt without = EncodePrompt(tokenizer_, request).value();
    if (with.notes.replies.empty()) {
      EXPECT_EQ(with.ids, without.ids);
      return false;
    }
    EXPECT_EQ(with.notes.replies[0].begin, begin_);
    EXPECT_EQ(with.notes.replies[0].end, begin_ + kIds.size());
    EXPECT_TRUE(std::equal(kIds.begin(), kIds.end(), with.ids.begin() + begin_));
    // What comes before and behind is as without. (The line feed behind <think> is a token with the
    // next one where the client left the reasoning out.)
    EXPECT_TRUE(std::equal(with.ids.begin(), with.ids.begin() + begin_ - 1, without.ids.begin()));
    const size_t behind = with.ids.size() - begin_ - kIds.size();
    EXPECT_TRUE(std::equal(with.ids.end() - behind, with.ids.end(), without.ids.end() - behind));
    return true;
  }

  static inline const std::vector<uint32_t> kIds = {11, 12, 13, 14, 15};
  const text::Tokenizer& tokenizer_ = *cold_->loaded().tokenizer().value();
  text::ChatRequest prompt_;
  text::ChatMessage reply_;
  ReplyMemory memory_{100'000};
  size_t begin_ = 0;
  std::optional<bool> preserve_;
};

TEST_F(SpliceTest, WhatIsEqualAfterParsing) {
  EXPECT_TRUE(Splices(reply_));
  text::ChatMessage sent = reply_;
  sent.content[0].text = "\n I look.\n\n";
  EXPECT_TRUE(Splices(sent));
  sent.tool_calls[0].arguments = text::OrderedJson{{"b", {{"c", 2}}}, {"a", 1}};
  EXPECT_TRUE(Splices(sent));
  // What an agent adds as its schema's default.
  sent.tool_calls[0].arguments["all"] = false;
  EXPECT_TRUE(Splices(sent));
  sent.reasoning = "  They want it.\n";
  EXPECT_TRUE(Splices(sent));
  // Left out, as many clients do: it comes back, as the template would have kept it.
  sent.reasoning.clear();
  EXPECT_TRUE(Splices(sent));
}

TEST_F(SpliceTest, WhatIsNotIsReadAsSent) {
  text::ChatMessage sent = reply_;
  sent.content[0].text = "I look .";
  EXPECT_FALSE(Splices(sent));
  sent = reply_;
  sent.tool_calls[0].arguments["a"] = 3;
  EXPECT_FALSE(Splices(sent));
  sent = reply_;
  sent.tool_calls[0].arguments["all"] = true;
  EXPECT_FALSE(Splices(sent));
  sent = reply_;
  sent.tool_calls[0].name = "seek";
  EXPECT_FALSE(Splices(sent));
  sent = reply_;
  sent.reasoning = "They want another.";
  EXPECT_FALSE(Splices(sent));
  // Another question before it.
  prompt_.messages[0].content[0].text = "Look it up!";
  EXPECT_FALSE(Splices(reply_));
}

TEST_F(SpliceTest, WhereTheTemplateDropsReasoningNothingBringsItBack) {
  preserve_ = false;
  EXPECT_FALSE(Splices(reply_));
}

TEST_F(SpliceTest, WhatIsLongestUnusedGoes) {
  PromptHash elsewhere;
  for (uint64_t i = 0; i < 1000; ++i) {
    elsewhere.Add(i);
    memory_.Remember(elsewhere, DigestOf(reply_, prompt_.tools),
                     std::make_shared<std::vector<uint32_t>>(kIds));
    if (i == 100) {
      EXPECT_TRUE(Splices(reply_));
    }
  }
  EXPECT_FALSE(Splices(reply_));
}

}  // namespace
}  // namespace slotstream::engine
