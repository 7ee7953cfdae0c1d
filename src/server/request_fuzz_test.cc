// Requests that are nearly right: seeded mutations of valid ones, through every dialect's reader.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "server/test_readers.h"

namespace slotstream::server {
namespace {

// More where the machine is asked for more; these take about a second.
constexpr int kRounds = 4000;

class Mutator {
 public:
  explicit Mutator(uint32_t seed) : random_(seed) {}

  // Changes the structure: types, members, depth.
  Json Change(Json json) {
    for (int changes = 1 + Below(4); changes > 0; --changes) ChangeNode(Pick(json));
    return json;
  }

  // Changes the text, which is then mostly no JSON any more.
  std::string ChangeText(std::string text) {
    for (int changes = 1 + Below(6); changes > 0 && !text.empty(); --changes) {
      const size_t at = Below(text.size());
      switch (Below(5)) {
        case 0:
          text[at] = static_cast<char>(Below(256));
          break;
        case 1:
          text.erase(at, 1 + Below(9));
          break;
        case 2:
          text.insert(at, text.substr(Below(text.size()), Below(40)));
          break;
        case 3:
          text.insert(at, Below(2) == 0 ? "\\ud800" : "\xed\xa0\x80");
          break;
        case 4:
          text.resize(at);
          break;
      }
    }
    return text;
  }

  size_t Below(size_t bound) { return bound == 0 ? 0 : random_() % bound; }

 private:
  Json& Pick(Json& root) {
    Json* node = &root;
    while (node->is_structured() && !node->empty() && Below(6) != 0) {
      node = &*std::next(node->begin(), static_cast<ptrdiff_t>(Below(node->size())));
    }
    return *node;
  }

  Json Odd() {
    switch (Below(14)) {
      case 0:
        return nullptr;
      case 1:
        return Below(2) == 0;
      case 2:
        return INT64_MIN;
      case 3:
        return UINT64_MAX;
      case 4:
        return Below(2) == 0 ? 1.7e308 : -1.7e308;
      case 5:
        return "";
      case 6:
        return std::string("a\0\x7f<|im_end|></think>", 21);
      case 7:
        return std::string(Below(3000), 'x');
      case 8:
        return Json::array();
      case 9:
        return Json::object();
      case 10:
        return Json::array({Json::array({1, nullptr, "x"})});
      case 11:
        return Json{{"type", Json::array()}, {"role", 5}, {"name", Json::object()}};
      case 12:
        return -1;
      default:
        return 0.5;
    }
  }

  void ChangeNode(Json& node) {
    switch (Below(6)) {
      case 0:
        node = Odd();
        break;
      case 1:  // without one of its members
        if (node.is_object() && !node.empty()) {
          node.erase(std::next(node.begin(), static_cast<ptrdiff_t>(Below(node.size()))));
        } else if (node.is_array() && !node.empty()) {
          node.erase(Below(node.size()));
        } else {
          node = Odd();
        }
        break;
      case 2:  // with one of them twice
        if (node.is_array() && !node.empty()) {
          const Json copy = node[Below(node.size())];
          node.insert(node.begin() + static_cast<ptrdiff_t>(Below(node.size())), copy);
        } else if (node.is_object() && node.size() > 1) {
          auto from = std::next(node.begin(), static_cast<ptrdiff_t>(Below(node.size())));
          auto to = std::next(node.begin(), static_cast<ptrdiff_t>(Below(node.size())));
          const Json copy = *from;
          *to = copy;
        }
        break;
      case 3:  // deeper
        for (size_t levels = 1 + Below(Below(8) == 0 ? 250 : 3); levels > 0; --levels) {
          Json inner = std::move(node);
          node = Below(2) == 0 ? Json::array({std::move(inner)})
                               : Json{{Below(2) == 0 ? "text" : "content", std::move(inner)}};
        }
        break;
      case 4:  // in another order
        if (node.is_array()) std::shuffle(node.begin(), node.end(), random_);
        break;
      case 5:  // as text
        if (node.is_structured()) node = node.dump();
        break;
    }
  }

  std::mt19937 random_;
};

TEST(RequestFuzz, SamplesAreRight) {
  for (const std::string& sample : RequestSamples()) {
    const auto json = ParseBody(sample);
    ASSERT_TRUE(json) << json.error().message;
    EXPECT_EQ(FaultOfReaders(sample), "");
  }
  OpenAiCall chat;
  EXPECT_FALSE(ReadOpenAiChatCall(*ParseBody(RequestSamples()[0]), chat));
  ResponsesCall responses;
  EXPECT_FALSE(ReadResponsesCall(*ParseBody(RequestSamples()[3]), responses));
  AnthropicCall anthropic;
  EXPECT_FALSE(ReadAnthropicCall(*ParseBody(RequestSamples()[4]), anthropic));
}

TEST(RequestFuzz, ChangedStructures) {
  Mutator mutator(1);
  int read = 0;
  for (int round = 0; round < kRounds; ++round) {
    const std::string& sample = RequestSamples()[mutator.Below(RequestSamples().size())];
    const std::string body = Dump(mutator.Change(*ParseBody(sample)));
    ASSERT_EQ(FaultOfReaders(body), "") << body;
    OpenAiCall chat;
    const auto json = ParseBody(body);
    read += json && !ReadOpenAiChatCall(*json, chat) ? 1 : 0;
  }
  EXPECT_GT(read, kRounds / 100) << "mutations that are never read prove nothing";
}

TEST(RequestFuzz, ChangedTexts) {
  Mutator mutator(2);
  for (int round = 0; round < kRounds; ++round) {
    const std::string& sample = RequestSamples()[mutator.Below(RequestSamples().size())];
    const std::string body = mutator.ChangeText(sample);
    ASSERT_EQ(FaultOfReaders(body), "") << body;
  }
}

}  // namespace
}  // namespace slotstream::server
