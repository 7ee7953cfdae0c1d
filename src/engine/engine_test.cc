// Requests: what ends them, what refuses them, and that the next one is not affected.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/test_support.h"
#include "text/chat_template.h"
#include "text/json_text.h"

namespace slotstream::engine {
namespace {

using generate::FinishReason;
using generate::ReplyEvent;

constexpr uint32_t kContext = 96;

class EngineTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    LoadOptions options;
    options.directory = MiniatureDirectory();
    options.wishes = {.slots = {},
                      .pass_rows = 16,
                      .memory_bytes = 1'000'000'000,
                      .max_context = kContext,
                      .threads = 2};
    auto loaded = LoadForTest(options);
    ASSERT_TRUE(loaded) << loaded.error().message;
    engine_ = new Engine(std::move(*loaded));
  }
  static void TearDownTestSuite() { delete engine_; }

  static Request Greedy(std::vector<uint32_t> ids, int64_t max_tokens) {
    Request request;
    request.ids = std::move(ids);
    request.sampling = generate::SamplingParams::Greedy();
    request.sampling.max_tokens = max_tokens;
    return request;
  }
  static text::ChatRequest Chat(const std::string& question) {
    text::ChatRequest chat;
    auto messages =
        text::ParseMessages(text::OrderedJson{{{"role", "user"}, {"content", question}}});
    EXPECT_TRUE(messages);
    chat.messages = std::move(*messages);
    chat.enable_thinking = false;
    return chat;
  }
  // The miniature answers this at length, past the context.
  static std::vector<uint32_t> Prompt() {
    const auto prompt = text::RenderChat(Chat("Tell me a story about a fox."));
    EXPECT_TRUE(prompt);
    return engine_->loaded().tokenizer().value()->Encode(prompt->text).value();
  }

  struct Outcome {
    Result<generate::GenerationResult> result;
    std::string text;
  };
  static Outcome Run(Request request) {
    std::string text;
    RequestObserver observer;
    observer.generation.on_event = [&](const ReplyEvent& event) { text += event.text; };
    auto result = engine_->Submit(std::move(request), std::move(observer))->Wait();
    return {std::move(result), std::move(text)};
  }
  static void ExpectRefused(const Request& request, ErrorCode code) {
    const Outcome outcome = Run(request);
    ASSERT_FALSE(outcome.result);
    EXPECT_EQ(outcome.result.error().code, code) << outcome.result.error().message;
    EXPECT_FALSE(outcome.result.error().message.empty());
    EXPECT_EQ(outcome.text, "");
  }

  static inline Engine* engine_ = nullptr;
};

TEST_F(EngineTest, PromptsThatCannotBe) {
  ExpectRefused(Greedy({}, 5), ErrorCode::kInvalidArgument);
  ExpectRefused(Greedy(std::vector<uint32_t>(kContext, 1), 5), ErrorCode::kInvalidArgument);
  ExpectRefused(Greedy(std::vector<uint32_t>(kContext + 1, 1), 5), ErrorCode::kInvalidArgument);
  ExpectRefused(Greedy({engine_->loaded().config().vocab_size}, 5), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(Run(Greedy(Prompt(), 1)).result);
}

TEST_F(EngineTest, TheLongestPromptHasRoomForOneToken) {
  const Outcome outcome = Run(Greedy(std::vector<uint32_t>(kContext - 1, Prompt()[0]), 50));
  ASSERT_TRUE(outcome.result) << outcome.result.error().message;
  EXPECT_EQ(outcome.result->output.size(), 1u);
  EXPECT_EQ(outcome.result->prompt_tokens, kContext - 1);
}

TEST_F(EngineTest, MaxTokensEndsAReply) {
  const Outcome longer = Run(Greedy(Prompt(), 9));
  ASSERT_TRUE(longer.result) << longer.result.error().message;
  ASSERT_EQ(longer.result->output.size(), 9u) << "the prompt should be answered at length";
  EXPECT_EQ(longer.result->reason, FinishReason::kLength);
  for (const int64_t max_tokens : {1, 2, 8}) {
    const Outcome outcome = Run(Greedy(Prompt(), max_tokens));
    ASSERT_TRUE(outcome.result);
    EXPECT_EQ(outcome.result->reason, FinishReason::kLength);
    EXPECT_EQ(outcome.result->output,
              std::vector<uint32_t>(longer.result->output.begin(),
                                    longer.result->output.begin() + max_tokens));
    const auto text = engine_->loaded().tokenizer().value()->Decode(outcome.result->output, true);
    EXPECT_EQ(outcome.text, *text);
  }
}

TEST_F(EngineTest, AFullContextEndsAReply) {
  const Outcome outcome = Run(Greedy(Prompt(), 500));
  ASSERT_TRUE(outcome.result) << outcome.result.error().message;
  EXPECT_EQ(outcome.result->reason, FinishReason::kContext);
  EXPECT_EQ(outcome.result->output.size(), kContext - Prompt().size());
}

// A chat reply ends with a stop token, which is among the output but not among the text.
TEST_F(EngineTest, AStopTokenIsNotDelivered) {
  const auto& stop_ids = engine_->loaded().generation_config().eos_token_ids;
  const text::Tokenizer& tokenizer = *engine_->loaded().tokenizer().value();
  bool stopped = false;
  for (const char* question : {"Hello!", "What is the capital of France?", "Name three fruits."}) {
    Request request = Greedy({}, 60);
    request.chat = Chat(question);
    const Outcome outcome = Run(std::move(request));
    ASSERT_TRUE(outcome.result) << outcome.result.error().message;
    if (outcome.result->reason != FinishReason::kStopToken) continue;
    stopped = true;
    const std::vector<uint32_t>& output = outcome.result->output;
    EXPECT_NE(std::ranges::find(stop_ids, output.back()), stop_ids.end());
    for (size_t i = 0; i + 1 < output.size(); ++i) {
      EXPECT_EQ(std::ranges::find(stop_ids, output[i]), stop_ids.end());
    }
    EXPECT_EQ(outcome.text, *tokenizer.Decode(std::span(output).first(output.size() - 1), true));
    EXPECT_EQ(outcome.text.find("<|im_end|>"), std::string::npos);
  }
  EXPECT_TRUE(stopped) << "no question was answered to the end";
}

// Control tokens have no text anyway; an ordinary token that ends a reply is not delivered either.
TEST_F(EngineTest, AnyStopTokenIsNotDelivered) {
  LoadOptions options;
  options.directory = MiniatureDirectory();
  options.wishes.memory_bytes = 1'000'000'000;
  options.wishes.threads = 1;
  auto loaded = LoadForTest(options);
  ASSERT_TRUE(loaded) << loaded.error().message;
  const Outcome whole = Run(Greedy(Prompt(), 6));
  ASSERT_TRUE(whole.result);

  generate::Generation generation;
  generation.prompt = Prompt();
  generation.sampling = generate::SamplingParams::Greedy();
  generation.stop_ids = {whole.result->output[3]};
  generation.max_context = kContext;
  std::string text;
  generate::GenerationObserver observer;
  observer.on_event = [&](const ReplyEvent& event) { text += event.text; };
  state::Sequence sequence((*loaded)->config());
  const std::atomic<bool> cancel = false;
  const auto result = generate::Generate((*loaded)->model(), **(*loaded)->tokenizer(), sequence,
                                         generation, observer, cancel, Clock::Steady());
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->reason, FinishReason::kStopToken);
  const std::span<const uint32_t> output = whole.result->output;
  const auto end = std::ranges::find(output, output[3]) - output.begin();
  EXPECT_EQ(result->output, std::vector<uint32_t>(output.begin(), output.begin() + end + 1));
  EXPECT_EQ(text, *(*loaded)->tokenizer().value()->Decode(output.first(static_cast<size_t>(end))));
}

TEST_F(EngineTest, AStopStringIsNotDelivered) {
  const Outcome whole = Run(Greedy(Prompt(), 12));
  ASSERT_TRUE(whole.result);
  ASSERT_GT(whole.text.size(), 8u);
  Request request = Greedy(Prompt(), 12);
  request.sampling.stop = {whole.text.substr(5, 3)};
  const Outcome outcome = Run(std::move(request));
  ASSERT_TRUE(outcome.result);
  EXPECT_EQ(outcome.result->reason, FinishReason::kStopString);
  EXPECT_EQ(outcome.result->stop_string, whole.text.substr(5, 3));
  EXPECT_EQ(outcome.text, whole.text.substr(0, whole.text.find(whole.text.substr(5, 3))));
}

TEST_F(EngineTest, PrefillIsReported) {
  const std::vector<uint32_t> prompt(40, Prompt()[0]);
  std::vector<size_t> done;
  std::vector<uint32_t> started;
  RequestObserver observer;
  observer.on_start = [&](const std::vector<uint32_t>& ids) { started = ids; };
  observer.generation.on_prefill = [&](size_t read, size_t total) {
    EXPECT_EQ(total, 40u);
    done.push_back(read);
  };
  ASSERT_TRUE(engine_->Submit(Greedy(prompt, 1), observer)->Wait());
  EXPECT_EQ(started, prompt);
  EXPECT_EQ(done, (std::vector<size_t>{16, 32, 40}));
}

// Cancelled while another runs, so before it began; then at each stage of its own run.
TEST_F(EngineTest, CancelAtAnyTime) {
  const Outcome before = Run(Greedy(Prompt(), 6));
  ASSERT_TRUE(before.result);
  {
    std::shared_ptr<Job> waiting;
    RequestObserver blocker;
    blocker.on_start = [&](const std::vector<uint32_t>&) {
      // The engine's thread is here, so what is submitted now has to wait.
      std::thread([&] { waiting = engine_->Submit(Greedy(Prompt(), 6), {}); }).join();
      waiting->Cancel();
    };
    EXPECT_TRUE(engine_->Submit(Greedy(Prompt(), 1), blocker)->Wait());
    const auto result = waiting->Wait();
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::kCancelled);
  }
  for (const std::string stage : {"start", "prefill", "first event", "third event"}) {
    SCOPED_TRACE(stage);
    std::shared_ptr<Job> job;
    std::mutex ready;  // until `job` is set
    size_t events = 0;
    const auto cancel = [&](const char* at) {
      if (stage != at) return;
      std::lock_guard lock(ready);
      job->Cancel();
    };
    RequestObserver observer;
    observer.on_start = [&](const std::vector<uint32_t>&) { cancel("start"); };
    observer.generation.on_prefill = [&](size_t done, size_t) {
      if (done == 16) cancel("prefill");
    };
    observer.generation.on_event = [&](const ReplyEvent&) {
      ++events;
      if (events == 1) cancel("first event");
      if (events == 3) cancel("third event");
    };
    {
      std::lock_guard lock(ready);
      job = engine_->Submit(Greedy(Prompt(), 30), observer);
    }
    const auto result = job->Wait();
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::kCancelled);
    EXPECT_EQ(events, stage == "first event" ? 1u : stage == "third event" ? 3u : 0u);
  }
  const Outcome after = Run(Greedy(Prompt(), 6));
  ASSERT_TRUE(after.result);
  EXPECT_EQ(after.result->output, before.result->output);
}

TEST_F(EngineTest, RequestsRunInTheirOrder) {
  std::vector<int> order;
  std::vector<std::shared_ptr<Job>> jobs;
  for (int i = 0; i < 4; ++i) {
    RequestObserver observer;
    observer.on_start = [&order, i](const std::vector<uint32_t>&) { order.push_back(i); };
    jobs.push_back(engine_->Submit(Greedy(Prompt(), 1), observer));
  }
  for (const auto& job : jobs) EXPECT_TRUE(job->Wait());
  EXPECT_TRUE(jobs[0]->WaitForMillis(0));
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3}));
}

TEST_F(EngineTest, TheEndIsReportedOnce) {
  int ends = 0;
  bool failed = false;
  RequestObserver observer;
  observer.on_end = [&](const Result<generate::GenerationResult>& result) {
    ++ends;
    failed = !result;
  };
  EXPECT_TRUE(engine_->Submit(Greedy(Prompt(), 2), observer)->Wait());
  EXPECT_EQ(ends, 1);
  EXPECT_FALSE(failed);
  EXPECT_FALSE(engine_->Submit(Greedy({}, 2), observer)->Wait());
  EXPECT_EQ(ends, 2);
  EXPECT_TRUE(failed);
}

// A prompt that its caller encoded is the same request.
TEST_F(EngineTest, EncodedBeforeItIsSubmitted) {
  Request request = Greedy({}, 6);
  request.chat = Chat("Name three fruits.");
  const Outcome whole = Run(request);
  request.ids = EncodePrompt(*engine_->loaded().tokenizer().value(), request).value().ids;
  const Outcome encoded = Run(request);
  ASSERT_TRUE(whole.result && encoded.result);
  EXPECT_EQ(encoded.result->output, whole.result->output);
  EXPECT_EQ(encoded.result->prompt_tokens, request.ids.size());
}

TEST_F(EngineTest, AReplyBeginsAsItMust) {
  Request request = Greedy({}, 3);
  request.chat = Chat("Hi");
  request.reply_start = "Once upon";
  const Outcome outcome = Run(request);
  ASSERT_TRUE(outcome.result) << outcome.result.error().message;
  EXPECT_TRUE(outcome.text.starts_with("Once upon")) << outcome.text;
  EXPECT_EQ(outcome.result->output.size(), 3u);
  // The same tokens, had they been the prompt's end only.
  Request prompt =
      Greedy(EncodePrompt(*engine_->loaded().tokenizer().value(), request).value().ids, 3);
  const Outcome same = Run(std::move(prompt));
  EXPECT_EQ(outcome.result->output, same.result->output);
  EXPECT_EQ(outcome.text, "Once upon" + same.text);
}

// A tool's name in the reply's beginning is a client's text.
TEST_F(EngineTest, LiteralPartsOfTheBeginningAreText) {
  const text::Tokenizer& tokenizer = *engine_->loaded().tokenizer().value();
  const uint32_t end = *tokenizer.FindAddedToken("<|im_end|>");
  Request request = Greedy({}, 3);
  request.chat = Chat("Hi");
  const size_t before = std::ranges::count(EncodePrompt(tokenizer, request).value().ids, end);
  request.reply_start = "<tool_call>\n<function=a<|im_end|>b>\n";
  EXPECT_EQ(std::ranges::count(EncodePrompt(tokenizer, request).value().ids, end), before + 1);
  const size_t name = request.reply_start.find('=') + 1;
  request.reply_literal = {{name, request.reply_start.size() - 2}};
  const std::vector<uint32_t> ids = EncodePrompt(tokenizer, request).value().ids;
  EXPECT_EQ(std::ranges::count(ids, end), before);
  EXPECT_EQ(std::ranges::count(ids, *tokenizer.FindAddedToken("<tool_call>")), 1);
  const Outcome outcome = Run(request);
  ASSERT_TRUE(outcome.result) << outcome.result.error().message;
}

TEST_F(EngineTest, ASingleCallEndsTheReply) {
  Request request = Greedy({}, 20);
  request.chat = Chat("Hi");
  request.reply_start = "<tool_call>\n<function=f>\n</function>\n";
  request.ids = EncodePrompt(*engine_->loaded().tokenizer().value(), request).value().ids;
  request.chat->tools = text::OrderedJson::parse(R"([{"name": "f"}])");
  Outcome outcome = Run(request);
  ASSERT_TRUE(outcome.result) << outcome.result.error().message;
  EXPECT_NE(outcome.result->reason, FinishReason::kCall);
  request.single_call = true;
  outcome = Run(request);
  ASSERT_TRUE(outcome.result);
  EXPECT_EQ(outcome.result->reason, FinishReason::kCall);
}

TEST_F(EngineTest, LogProbabilities) {
  Request request = Greedy(Prompt(), 5);
  std::vector<generate::ChosenToken> tokens;
  RequestObserver observer;
  observer.generation.on_token = [&](const generate::ChosenToken& token) {
    tokens.push_back(token);
  };
  ASSERT_TRUE(engine_->Submit(request, observer)->Wait());
  EXPECT_TRUE(tokens.empty()) << "they cost time and were not asked for";
  request.alternatives = 4096;
  const auto result = engine_->Submit(request, observer)->Wait();
  ASSERT_TRUE(result);
  ASSERT_EQ(tokens.size(), 5u);
  for (size_t i = 0; i < tokens.size(); ++i) {
    EXPECT_EQ(tokens[i].chosen.id, result->output[i]);
    EXPECT_TRUE(tokens[i].in_answer);
    ASSERT_EQ(tokens[i].best.size(), generate::kMostAlternatives);
    EXPECT_EQ(tokens[i].best[0].id, tokens[i].chosen.id) << "greedy";
    EXPECT_EQ(tokens[i].best[0].log_prob, tokens[i].chosen.log_prob);
    double sum = 0;
    for (size_t j = 0; j < tokens[i].best.size(); ++j) {
      EXPECT_LE(tokens[i].best[j].log_prob, tokens[i].best[j == 0 ? 0 : j - 1].log_prob);
      sum += std::exp(tokens[i].best[j].log_prob);
    }
    EXPECT_LE(sum, 1.0 + 1e-6);
    EXPECT_GT(sum, 0.2) << "the twenty likeliest of 4096 of a trained model";
  }
}

TEST_F(EngineTest, ReasoningIsCounted) {
  Request request = Greedy(Prompt(), 8);
  EXPECT_EQ(Run(request).result->reasoning_tokens, 0u);
  request.opens_thinking = true;  // and the answer never closes it
  EXPECT_EQ(Run(request).result->reasoning_tokens, 8u);
}

// The engine goes while one request runs and others wait: all end.
TEST_F(EngineTest, GoingCancelsWhatIsLeft) {
  LoadOptions options;
  options.directory = MiniatureDirectory();
  options.wishes = {.slots = {},
                    .pass_rows = 16,
                    .memory_bytes = 1'000'000'000,
                    .max_context = 4096,
                    .threads = 1};
  auto loaded = LoadForTest(options);
  ASSERT_TRUE(loaded) << loaded.error().message;
  auto engine = std::make_unique<Engine>(std::move(*loaded));
  std::vector<std::shared_ptr<Job>> jobs;
  for (int i = 0; i < 3; ++i) {
    jobs.push_back(engine->Submit(Greedy(std::vector<uint32_t>(3000, Prompt()[0]), 50), {}));
  }
  engine.reset();
  for (const auto& job : jobs) {
    ASSERT_TRUE(job->WaitForMillis(0));
    const auto result = job->Wait();
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::kCancelled);
  }
}

}  // namespace
}  // namespace slotstream::engine
