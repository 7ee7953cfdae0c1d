// What happens to requests that wait: for the model, for their turn, for too long.
#include "server/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "server/exchange.h"

namespace slotstream::server {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::shared_ptr<ResponseStream> Response() {
  return std::make_shared<ResponseStream>(ResponseStream::Framing{.headers = {}});
}

std::string Sent(ResponseStream& response) {
  std::string bytes;
  response.Take(bytes);
  return bytes;
}

ServiceOptions Options(size_t waiting) {
  ServiceOptions options;
  options.schedule.waiting = waiting;
  return options;
}

TEST(Service, StoppingAnswersThoseWhoWaitForTheModel) {
  Service service(Options(2));
  const auto chat = Response(), messages = Response(), third = Response(), late = Response();
  int done = 0;
  const auto work = [&done] { ++done; };
  service.RunWhenLoaded(chat, ErrorForm::kOpenAi, work);
  service.RunWhenLoaded(messages, ErrorForm::kAnthropic, work);
  EXPECT_EQ(service.waiting(), 2u);
  service.RunWhenLoaded(third, ErrorForm::kOpenAi, work);
  const std::string full = Sent(*third);
  EXPECT_THAT(full, StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(full, HasSubstr("Retry-After: "));
  EXPECT_EQ(Sent(*chat), "") << "it waits";
  service.Drain(milliseconds(0));
  for (const auto& response : {chat, messages}) {
    const std::string sent = Sent(*response);
    EXPECT_THAT(sent, StartsWith("HTTP/1.1 503"));
    EXPECT_THAT(sent, HasSubstr("the server is stopping"));
    EXPECT_THAT(sent, Not(HasSubstr("Retry-After")));
  }
  service.RunWhenLoaded(late, ErrorForm::kOllama, work);
  EXPECT_THAT(Sent(*late), HasSubstr(R"({"error":"the server is stopping"})"));
  EXPECT_EQ(service.waiting(), 0u);
  EXPECT_EQ(done, 0);
  EXPECT_EQ(service.stats().snapshot().refused, 1u) << "by the full queue alone";
}

// Remembers how it ended.
class Recorder : public ReplyWriter {
 public:
  explicit Recorder(std::vector<ApiError>& failures) : failures_(failures) {}
  void Begin(const PromptCount&) override {}
  void Event(const generate::ReplyEvent&) override {}
  void KeepAlive() override {}
  void End(const generate::GenerationResult&) override {}
  void Fail(const ApiError& error) override { failures_.push_back(error); }

 private:
  std::vector<ApiError>& failures_;
};

TEST(Scheduler, TheFirstTokenHasADeadline) {
  std::vector<ApiError> failures;
  ServerStats stats;
  const auto exchange = [&](const char* key) {
    return std::make_shared<Exchange>(engine::Request{}, PromptCount{},
                                      std::make_unique<Recorder>(failures), Response(), key, stats);
  };
  Scheduler patient({.first_token = milliseconds(0)});
  EXPECT_TRUE(patient.Submit(exchange("a")));
  Scheduler scheduler({.first_token = milliseconds(1)});
  EXPECT_TRUE(scheduler.Submit(exchange("b")));
  EXPECT_TRUE(scheduler.Submit(exchange("c")));
  while (scheduler.waiting() > 0) {
    patient.Tick();
    scheduler.Tick();
  }
  ASSERT_EQ(failures.size(), 2u);
  for (const ApiError& failure : failures) {
    EXPECT_EQ(failure.kind, ApiError::Kind::kTimeout);
    EXPECT_THAT(failure.message, HasSubstr("0.001 seconds"));
  }
  EXPECT_EQ(patient.waiting(), 1u);
  EXPECT_EQ(stats.snapshot().late, 2u);
}

}  // namespace
}  // namespace slotstream::server
