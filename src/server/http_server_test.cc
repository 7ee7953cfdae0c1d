// Connections over real sockets, with limits so small that a test sees them act.
#include "server/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace slotstream::server {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int kPatience = 20'000;  // milliseconds; only a failing test waits so long

// Answers "GET /hello" at once, keeps "GET /held" for the test, and is slow for nobody.
class Greeter : public HttpHandler {
 public:
  std::optional<HttpResponse> CheckHead(const HttpRequest&) override { return std::nullopt; }
  std::vector<HttpHeader> CommonHeaders(const HttpRequest&) override { return {}; }
  void Handle(HttpRequest request, std::shared_ptr<ResponseStream> response) override {
    if (request.path == "/held") {
      std::lock_guard lock(mutex_);
      held_.push_back(std::move(response));
      return;
    }
    response->Send({.content_type = "text/plain", .body = "hello " + request.body, .headers = {}});
  }
  HttpResponse ProtocolError(std::string_view, int status, std::string message) override {
    return {.status = status, .body = std::move(message), .headers = {}};
  }
  std::string NewRequestId() override { return "id"; }
  void Log(const HttpRequest&, const ResponseStream&, uint64_t, bool) override {}
  void Tick() override {}

  // The stream of a request for /held.
  std::shared_ptr<ResponseStream> Held() {
    for (int waited = 0; waited < kPatience; ++waited) {
      {
        std::lock_guard lock(mutex_);
        if (!held_.empty()) return held_.back();
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ADD_FAILURE() << "no request came";
    return nullptr;
  }

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<ResponseStream>> held_;
};

class Client {
 public:
  explicit Client(uint16_t port, int receive_buffer = 0)
      : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_buffer > 0) {
      setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    }
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  ~Client() { close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void Send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t count = send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (count <= 0) return;
      text.remove_prefix(static_cast<size_t>(count));
    }
  }

  // All that comes until the server closes, or `end` has come.
  std::string Receive(std::string_view end = {}) {
    std::string text;
    char buffer[4096];
    for (;;) {
      pollfd poller = {socket_, POLLIN, 0};
      if (poll(&poller, 1, kPatience) <= 0) {
        ADD_FAILURE() << "nothing comes, and the connection stays: " << text;
        return text;
      }
      const ssize_t count = recv(socket_, buffer, sizeof buffer, 0);
      if (count <= 0) return text;
      text.append(buffer, static_cast<size_t>(count));
      if (!end.empty() && text.ends_with(end)) return text;
    }
  }

 private:
  int socket_;
};

class HttpServerTest : public ::testing::Test {
 protected:
  void Serve(const HttpLimits& limits) {
    HttpOptions options;
    options.port = 0;
    options.limits = limits;
    server_ = HttpServer::Bind(options, greeter_).value();
    server_->Start();
  }
  uint16_t port() const { return server_->port(); }
  void ExpectHello() {
    Client client(port());
    client.Send("GET /hello HTTP/1.1\r\n\r\n");
    EXPECT_THAT(client.Receive("hello "), StartsWith("HTTP/1.1 200"));
  }

  Greeter greeter_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, ClosesWhatTakesTooLong) {
  Serve({.head_seconds = 1, .body_seconds = 2, .body_pause_seconds = 1, .idle_seconds = 1});
  Client silent(port()), head(port()), body(port()), dripping(port());
  head.Send("GET /hello HTTP/1.1\r\nX: ");
  body.Send("POST /hello HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc");
  dripping.Send("POST /hello HTTP/1.1\r\nContent-Length: 100000\r\n\r\n");
  // Each piece comes in time, the whole does not.
  std::jthread drip([&dripping](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      dripping.Send("a");
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  });
  for (Client* client : {&silent, &head, &body, &dripping}) EXPECT_EQ(client->Receive(), "");
  ExpectHello();
}

TEST_F(HttpServerTest, KeepsAConnectionThatIsUsed) {
  Serve({.head_seconds = 1, .body_pause_seconds = 1, .idle_seconds = 60});
  Client client(port());
  for (int i = 0; i < 3; ++i) {
    client.Send("POST /hello HTTP/1.1\r\nContent-Length: 2\r\n\r\nme");
    EXPECT_THAT(client.Receive("hello me"), StartsWith("HTTP/1.1 200"));
  }
}

TEST_F(HttpServerTest, NewcomersPushOutTheIdleAndThenTheSlow) {
  Serve({.connections = 4});
  Client idle(port());
  std::vector<std::unique_ptr<Client>> slow;
  for (int i = 0; i < 3; ++i) {
    slow.push_back(std::make_unique<Client>(port()));
    slow.back()->Send("GET /hello HTTP/1.1\r\nX: ");
  }
  // One after another takes the place of the idle one, of which nothing is lost.
  ExpectHello();
  EXPECT_EQ(idle.Receive(), "");
  slow.push_back(std::make_unique<Client>(port()));
  slow.back()->Send("GET /hello HTTP/1.1\r\nX: ");
  for (int i = 0; i < 8; ++i) ExpectHello();
}

TEST_F(HttpServerTest, RequestsUnderWayKeepTheirPlaces) {
  Serve({.connections = 1});
  Client held(port());
  held.Send("GET /held HTTP/1.1\r\n\r\n");
  const auto response = greeter_.Held();
  ASSERT_NE(response, nullptr);
  Client refused(port());
  refused.Send("GET /hello HTTP/1.1\r\n\r\n");
  EXPECT_EQ(refused.Receive(), "");
  response->Send({.body = "at last", .headers = {}});
  EXPECT_THAT(held.Receive("at last"), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, CutsAClientThatReadsNothing) {
  Serve({.send_seconds = 3600});
  Client client(port(), 4096);
  client.Send("GET /held HTTP/1.1\r\n\r\n");
  const auto response = greeter_.Held();
  ASSERT_NE(response, nullptr);
  std::atomic<bool> told = false;
  response->OnGone([&told] { told = true; });
  response->Begin("text/plain");
  const std::string piece(64 * 1024, 'x');
  for (int waited = 0; waited < kPatience && !told; ++waited) {
    response->Write(piece);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(told) << "who writes must hear of it, though a send still waits for the client";
  EXPECT_TRUE(response->gone());
  ExpectHello();
}

TEST_F(HttpServerTest, FramingThatCouldMeanTwoThingsIsRefused) {
  Serve({});
  const std::string hidden = "GET /hello HTTP/1.1\r\n\r\n";
  for (const std::string head : {"Content-Length: 5\r\nContent-Length: 0",
                                 "Content-Length: 0\r\nTransfer-Encoding: chunked",
                                 "Transfer-Encoding: chunked\r\nContent-Length: 0",
                                 "Transfer-Encoding : chunked",
                                 "Transfer-Encoding: xchunked",
                                 "Transfer-Encoding: chunked, gzip",
                                 "Transfer-Encoding: gzip, chunked",
                                 "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked",
                                 "Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip",
                                 "Content-Length: +5",
                                 "Content-Length: 0x5",
                                 "Content-Length: 5 5",
                                 "Content-Length: -1",
                                 "Content-Length: 1e1",
                                 "Content-Length: 18446744073709551616",
                                 "Content-Length: 18446744073709551621",
                                 "Content-Length : 5",
                                 "Content-Length",
                                 ": 5",
                                 "X\rContent-Length: 5",
                                 "X: \x01"}) {
    Client client(port());
    client.Send("POST /hello HTTP/1.1\r\n" + head + "\r\n\r\n0\r\n\r\n" + hidden);
    const std::string answer = client.Receive();
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 400")) << head;
    EXPECT_THAT(answer, Not(HasSubstr("hello"))) << head;
  }
  for (const std::string chunks : {"-1\r\n", "g\r\n", "0x1\r\na\r\n", "fffffffffffffffff\r\na",
                                   "1\r\naa\r\n", "1\na\r\n", "1 \r\na\r\nz"}) {
    Client client(port());
    client.Send("POST /hello HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks +
                "0\r\n\r\n" + hidden);
    EXPECT_THAT(client.Receive(), Not(HasSubstr("hello"))) << chunks;
  }
}

TEST_F(HttpServerTest, BodiesEndWhereTheySay) {
  Serve({});
  const std::string close = "GET /hello HTTP/1.1\r\nConnection: close\r\n\r\n";
  for (const std::string& request :
       {std::string("POST /hello HTTP/1.1\r\nContent-Length: 2\r\n\r\nme"),
        std::string("GET /hello HTTP/1.1\r\nContent-Length: 2\r\n\r\nme"),
        std::string("POST /hello HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n"
                    "1;name=value\r\nm\r\n01\r\ne\r\n0\r\nTrailer: x\r\n\r\n")}) {
    Client client(port());
    client.Send(request + close);
    const std::string answer = client.Receive();
    EXPECT_THAT(answer, HasSubstr("hello meHTTP/1.1 200")) << request;
    EXPECT_THAT(answer, EndsWith("hello ")) << request;
  }
}

TEST_F(HttpServerTest, ChunksCannotGoOnForEver) {
  Serve({.body_bytes = 1000});
  Client body(port()), extension(port()), trailer(port());
  const std::string head = "POST /hello HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
  std::string chunks;
  for (int i = 0; i < 20; ++i) chunks += "64\r\n" + std::string(100, 'a') + "\r\n";
  body.Send(head + chunks);
  EXPECT_THAT(body.Receive(), StartsWith("HTTP/1.1 413"));
  extension.Send(head + "1;" + std::string(1 << 20, 'a'));
  EXPECT_THAT(extension.Receive(), StartsWith("HTTP/1.1 4"));
  trailer.Send(head + "0\r\nX: " + std::string(1 << 20, 'a'));
  EXPECT_THAT(trailer.Receive(), StartsWith("HTTP/1.1 4"));
}

}  // namespace
}  // namespace slotstream::server
