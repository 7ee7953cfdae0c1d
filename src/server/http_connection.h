// One connection: requests read one after another, each answered before the next is read.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "server/http_handler.h"

namespace slotstream::server {

// Everything happens on the thread of `io`. Timeouts and vanished peers are noticed by the owner's
// sweep, so that at every moment at most one operation of the socket is under way.
class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // `all_bodies` counts the bytes of all connections' bodies, `all_unsent` those of their answers.
  HttpConnection(boost::asio::io_context& io, boost::asio::ip::tcp::socket socket,
                 HttpHandler& handler, const HttpLimits& limits, size_t& all_bodies,
                 std::shared_ptr<ResponseStream::AllUnsent> all_unsent);
  ~HttpConnection() { CountBody(0); }

  // Serves until the client or Close ends it.
  boost::asio::awaitable<void> Run();

  // The next request has not come, or only in part, since `quiet_since`.
  bool awaiting_request() const { return awaiting_ && !closed_; }
  // Nothing of it has come.
  bool idle() const { return idle_; }
  TimePoint quiet_since() const { return quiet_since_; }
  // An answer is under way and may have to wait: the peer should be watched.
  bool answering() const { return response_ && !response_->ended(); }
  int descriptor() { return socket_.native_handle(); }

  // Closes what has taken too long.
  void CheckDeadline(TimePoint now);
  // Ends the connection after the answer under way.
  void FinishSoon();
  void Close();

 private:
  boost::asio::awaitable<bool> ReadRequest(HttpRequest& request);
  boost::asio::awaitable<bool> Answer(HttpRequest request);
  boost::asio::awaitable<bool> SendAll(ResponseStream& response);
  boost::asio::awaitable<bool> SendBytes(std::string_view bytes);
  boost::asio::awaitable<void> Refuse(std::string_view path, int status, std::string message);
  boost::asio::awaitable<void> RefuseRequest(const HttpRequest& head, const HttpResponse& answer);
  boost::asio::awaitable<void> Linger();
  void SetDeadline(int seconds);
  void CountBody(size_t bytes);

  boost::asio::io_context& io_;
  boost::asio::ip::tcp::socket socket_;
  HttpHandler& handler_;
  const HttpLimits& limits_;
  size_t& all_bodies_;
  const std::shared_ptr<ResponseStream::AllUnsent> all_unsent_;
  size_t body_ = 0;  // this connection's part of all_bodies_
  boost::asio::steady_timer wake_;
  boost::beast::flat_buffer buffer_;
  std::string peer_;
  std::shared_ptr<ResponseStream> response_;
  TimePoint deadline_ = TimePoint::max();
  TimePoint quiet_since_ = std::chrono::steady_clock::now();
  bool awaiting_ = true;
  bool idle_ = true;
  bool woken_ = false;
  bool keep_alive_ = true;
  bool http11_ = true;
  bool closed_ = false;
};

}  // namespace slotstream::server
