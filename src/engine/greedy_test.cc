// The miniature answers as an independent implementation says it should: the template's text, the
// tokenizer's ids, and greedy decoding up to the first step where the two best logits nearly tie.
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/test_support.h"
#include "text/chat_template.h"
#include "text/json_text.h"

namespace slotstream::engine {
namespace {

using text::OrderedJson;

constexpr double kClearMargin = 0.01;

// The goldens keep a message's reasoning as "thought"; its calls are {name, arguments}.
OrderedJson MessagesOf(const OrderedJson& golden) {
  OrderedJson messages = OrderedJson::array();
  if (golden["system"].is_string()) {
    messages.push_back({{"role", "system"}, {"content", golden["system"]}});
  }
  for (OrderedJson message : golden["messages"]) {
    if (message.contains("thought")) message["reasoning_content"] = message["thought"];
    messages.push_back(message);
  }
  return messages;
}

// int15 answers as exact does.
class Greedy : public testing::TestWithParam<kernels::ComputeMode> {};
INSTANTIATE_TEST_SUITE_P(Modes, Greedy,
                         testing::Values(kernels::ComputeMode::kExact,
                                         kernels::ComputeMode::kInt15),
                         [](const auto& mode) { return std::string(NameOf(mode.param)); });

TEST_P(Greedy, EqualsTheGoldens) {
  std::ifstream file(std::string(SLOTSTREAM_SOURCE_DIR) + "/tests/goldens/miniature_greedy.json");
  const OrderedJson goldens = OrderedJson::parse(file);
  LoadOptions options;
  options.directory = MiniatureDirectory();
  options.wishes = {.slots = {},
                    .pass_rows = 128,
                    .memory_bytes = 1'000'000'000,
                    .max_context = 4096,
                    .threads = 2,
                    .compute = GetParam()};
  auto loaded = LoadForTest(options);
  ASSERT_TRUE(loaded) << loaded.error().message;
  Engine engine(std::move(*loaded));
  auto tokenizer = engine.loaded().tokenizer();
  ASSERT_TRUE(tokenizer);

  ASSERT_GT(goldens.size(), 0u);
  size_t compared = 0;
  for (size_t i = 0; i < goldens.size(); ++i) {
    SCOPED_TRACE(i);
    const OrderedJson& golden = goldens[i];
    text::ChatRequest chat;
    auto messages = text::ParseMessages(MessagesOf(golden));
    ASSERT_TRUE(messages) << messages.error().message;
    chat.messages = std::move(*messages);
    chat.tools = golden["tools"];
    chat.enable_thinking = golden["think"].get<bool>();
    chat.reasoning_effort = golden["reasoning_effort"].get<std::string>();

    auto prompt = text::RenderChat(chat);
    ASSERT_TRUE(prompt) << prompt.error().message;
    EXPECT_EQ(prompt->text, golden["prompt"].get<std::string>());
    auto ids = (*tokenizer)->Encode(prompt->text);
    ASSERT_TRUE(ids) << ids.error().message;
    EXPECT_EQ(*ids, golden["prompt_ids"].get<std::vector<uint32_t>>());

    const auto output = golden["output_ids"].get<std::vector<uint32_t>>();
    Request request;
    request.chat = chat;
    request.sampling = generate::SamplingParams::Greedy();
    request.sampling.max_tokens = static_cast<int64_t>(output.size());
    auto result = engine.Submit(std::move(request), {})->Wait();
    ASSERT_TRUE(result) << result.error().message;
    for (size_t step = 0; step < output.size(); ++step) {
      const OrderedJson& top = golden["top3"][step];
      if (top[0].get<double>() - top[1].get<double>() < kClearMargin) break;
      ASSERT_GT(result->output.size(), step);
      ASSERT_EQ(result->output[step], output[step]) << "step " << step;
      ++compared;
    }
  }
  EXPECT_GT(compared, goldens.size());
}

}  // namespace
}  // namespace slotstream::engine
