#include "server/response_stream.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace slotstream::server {
namespace {

using State = ResponseStream::State;

std::string Taken(ResponseStream& stream, State expected) {
  std::string out;
  EXPECT_EQ(stream.Take(out), expected);
  return out;
}

TEST(ResponseStream, Whole) {
  ResponseStream stream({.headers = {{"X-A", "1"}}});
  EXPECT_FALSE(stream.begun());
  stream.Send({.status = 404, .body = "{}", .headers = {{"X-B", "2"}}});
  EXPECT_EQ(stream.status(), 404);
  EXPECT_EQ(Taken(stream, State::kEnded),
            "HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nX-A: 1\r\nX-B: 2\r\n"
            "Content-Length: 2\r\nConnection: keep-alive\r\n\r\n{}");
  stream.Send({.body = "again", .headers = {}});
  stream.Write("more");
  EXPECT_EQ(Taken(stream, State::kEnded), "");
}

TEST(ResponseStream, Chunks) {
  ResponseStream stream({.headers = {}});
  int wakes = 0;
  stream.SetWake([&wakes] { ++wakes; });
  stream.Begin("text/plain");
  EXPECT_TRUE(Taken(stream, State::kOpen).ends_with("Connection: keep-alive\r\n\r\n"));
  stream.Write("");
  stream.Write("0123456789abcdef!");
  EXPECT_EQ(Taken(stream, State::kOpen), "11\r\n0123456789abcdef!\r\n");
  stream.End();
  EXPECT_EQ(Taken(stream, State::kEnded), "0\r\n\r\n");
  EXPECT_EQ(wakes, 3);
  EXPECT_FALSE(stream.gone());
}

TEST(ResponseStream, OldClientsGetNoChunks) {
  ResponseStream stream({.chunked = false, .keep_alive = false, .headers = {}});
  stream.Begin("text/plain");
  stream.Write("x");
  stream.End();
  const std::string out = Taken(stream, State::kEnded);
  EXPECT_TRUE(out.ends_with("Connection: close\r\n\r\nx")) << out;
}

TEST(ResponseStream, HeadHasNoBody) {
  ResponseStream whole({.head_only = true, .headers = {}});
  whole.Send({.body = "body", .headers = {}});
  const std::string out = Taken(whole, State::kEnded);
  EXPECT_NE(out.find("Content-Length: 4\r\n"), std::string::npos);
  EXPECT_TRUE(out.ends_with("\r\n\r\n"));
}

TEST(ResponseStream, TheEndIsTold) {
  int gone = 0;
  {
    ResponseStream stream({.headers = {}});
    stream.OnGone([&gone] { ++gone; });
    stream.MarkGone();
    stream.MarkGone();
    EXPECT_EQ(gone, 1);
    EXPECT_TRUE(stream.gone());
    stream.OnGone([&gone] { ++gone; });  // it has gone already
    EXPECT_EQ(gone, 2);
  }
  ResponseStream stream({.headers = {}});
  stream.OnGone([&gone] { ++gone; });
  stream.Begin("text/plain");
  stream.End();
  stream.MarkGone();  // clients close when they have what they want
  EXPECT_EQ(gone, 2);
}

TEST(ResponseStream, WhoDoesNotReadIsCut) {
  ResponseStream stream({.headers = {}});
  stream.Begin("text/plain");
  const std::string piece(100'000, 'x');
  size_t written = 0;
  while (!stream.gone() && written < 100) {
    stream.Write(piece);
    ++written;
  }
  EXPECT_TRUE(stream.gone());
  EXPECT_LE(written * piece.size(), ResponseStream::kMostUnsent + 3 * piece.size());
  Taken(stream, State::kAborted);
  // One who reads is not, however much there is.
  ResponseStream read({.headers = {}});
  read.Begin("text/plain");
  for (int i = 0; i < 100; ++i) {
    read.Write(piece);
    Taken(read, State::kOpen);
  }
  EXPECT_FALSE(read.gone());
}

// Many who don't read: all together have a bound, and what was sent or is gone doesn't count.
TEST(ResponseStream, AllThatIsUnsentIsBounded) {
  const auto all = std::make_shared<ResponseStream::AllUnsent>(8u << 20);
  const auto make = [&] {
    auto stream =
        std::make_unique<ResponseStream>(ResponseStream::Framing{.headers = {}, .all_unsent = all});
    stream->Begin("text/plain");
    return stream;
  };
  const std::string piece(900'000, 'x');
  std::vector<std::unique_ptr<ResponseStream>> streams;
  while (streams.size() < 200) {
    streams.push_back(make());
    streams.back()->Write(piece);
    if (streams.back()->gone()) break;
  }
  EXPECT_LT(streams.size(), all->most / piece.size() + 2);
  EXPECT_LE(all->held.load(), all->most);
  // A short answer is still given, a long one is not.
  auto shorter = make();
  shorter->Write("ok");
  EXPECT_FALSE(shorter->gone());
  {
    ResponseStream longer({.headers = {}, .all_unsent = all});
    longer.Send({.body = piece, .headers = {}});
    EXPECT_TRUE(longer.gone());
  }
  // One reads, another leaves.
  const size_t before = all->held.load();
  std::string out;
  streams[0]->Take(out);
  EXPECT_EQ(all->held.load(), before) << "it is not sent yet";
  streams[0]->Sent();
  streams[1]->MarkGone();
  EXPECT_LT(all->held.load(), before - piece.size() * 2 + 1);
  EXPECT_FALSE(streams[0]->gone());
  auto next = make();
  next->Write(piece);
  EXPECT_FALSE(next->gone());
  streams.clear();
  shorter.reset();
  next.reset();
  EXPECT_EQ(all->held.load(), 0u);
  // Alone anything goes.
  ResponseStream alone({.headers = {}, .all_unsent = all});
  alone.Send({.body = std::string(all->most + 1, 'x'), .headers = {}});
  EXPECT_FALSE(alone.gone());
}

}  // namespace
}  // namespace slotstream::server
