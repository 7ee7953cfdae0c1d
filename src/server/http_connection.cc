#include "server/http_connection.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <utility>

// GCC 12 sees a mismatch between the new and the delete of a coroutine's frame where there is none
// (GCC bug 109224).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif

namespace slotstream::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;
using tcp = asio::ip::tcp;
using Parser = http::request_parser<http::string_body>;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

// What is read at once of a body; also what a client may send ahead of its answer.
constexpr size_t kReadAhead = 64 * 1024;
// A refused body is read on for a while, else the client would see a reset and not the answer.
constexpr size_t kMostDiscarded = 256 * 1024 * 1024;
constexpr int kLingerSeconds = 10;

HttpRequest HeadOf(const Parser& parser) {
  HttpRequest request;
  const auto& message = parser.get();
  request.method = std::string(message.method_string());
  request.path = ParseTarget({message.target().data(), message.target().size()});
  for (const auto& field : message) {
    request.headers.push_back({std::string(field.name_string()), std::string(field.value())});
  }
  return request;
}

// Codings that the parser doesn't undo.
bool HasForeignCoding(const Parser& parser) {
  const auto& message = parser.get();
  const auto coding = message.find(http::field::transfer_encoding);
  if (coding != message.end() &&
      !EqualsIgnoringCase({coding->value().data(), coding->value().size()}, "chunked")) {
    return true;
  }
  const auto encoding = message.find(http::field::content_encoding);
  return encoding != message.end() && encoding->value() != "identity" && !encoding->value().empty();
}

int StatusOf(const error_code& error) {
  if (error == http::error::header_limit || error == http::error::buffer_overflow) return 431;
  return error == http::error::body_limit ? 413 : 400;
}

std::string MessageOf(const error_code& error, const HttpLimits& limits) {
  switch (StatusOf(error)) {
    case 431:
      return "the request's head is longer than " + std::to_string(limits.head_bytes) + " bytes";
    case 413:
      return "the request's body is longer than " + std::to_string(limits.body_bytes) + " bytes";
  }
  return "this is no HTTP request: " + error.message();
}

bool IsProtocolError(const error_code& error) {
  return error.category() == http::make_error_code(http::error::bad_method).category() &&
         error != http::error::end_of_stream && error != http::error::partial_message;
}

}  // namespace

HttpConnection::HttpConnection(asio::io_context& io, tcp::socket socket, HttpHandler& handler,
                               const HttpLimits& limits, size_t& all_bodies,
                               std::shared_ptr<ResponseStream::AllUnsent> all_unsent)
    : io_(io),
      socket_(std::move(socket)),
      handler_(handler),
      limits_(limits),
      all_bodies_(all_bodies),
      all_unsent_(std::move(all_unsent)),
      wake_(io),
      buffer_(limits.head_bytes + kReadAhead) {
  error_code ignored;
  const auto endpoint = socket_.remote_endpoint(ignored);
  if (!ignored) peer_ = endpoint.address().to_string();
  // Tokens are small and each should arrive when it is known.
  socket_.set_option(tcp::no_delay(true), ignored);
}

asio::awaitable<void> HttpConnection::Run() {
  const auto self = shared_from_this();
  while (!closed_) {
    HttpRequest request;
    awaiting_ = true;
    if (!co_await ReadRequest(request)) break;
    awaiting_ = false;
    if (!co_await Answer(std::move(request))) break;
    CountBody(0);
  }
  Close();
}

asio::awaitable<bool> HttpConnection::ReadRequest(HttpRequest& request) {
  idle_ = true;
  quiet_since_ = std::chrono::steady_clock::now();
  if (buffer_.size() == 0) {
    SetDeadline(limits_.idle_seconds);
    const auto [error] = co_await socket_.async_wait(tcp::socket::wait_read, kAwait);
    if (error) co_return false;
  }
  idle_ = false;
  SetDeadline(limits_.head_seconds);
  Parser parser;
  parser.header_limit(static_cast<uint32_t>(limits_.head_bytes));
  parser.body_limit(limits_.body_bytes);
  {
    const auto [error, count] = co_await http::async_read_header(socket_, buffer_, parser, kAwait);
    if (error) {
      if (IsProtocolError(error)) {
        co_await Refuse(HeadOf(parser).path, StatusOf(error), MessageOf(error, limits_));
      }
      co_return false;
    }
  }
  request = HeadOf(parser);
  request.id = handler_.NewRequestId();
  request.peer = peer_;
  keep_alive_ = keep_alive_ && parser.keep_alive();
  http11_ = parser.get().version() >= 11;
  if (HasForeignCoding(parser)) {
    co_await Refuse(request.path, 400,
                    "only plain and chunked bodies are understood, no other coding");
    co_return false;
  }
  if (const std::optional<HttpResponse> refusal = handler_.CheckHead(request)) {
    co_await RefuseRequest(request, *refusal);
    co_return false;
  }
  if (const auto expect = request.Header("Expect");
      expect && EqualsIgnoringCase(*expect, "100-continue") && !parser.is_done()) {
    if (!co_await SendBytes("HTTP/1.1 100 Continue\r\n\r\n")) co_return false;
  }
  const TimePoint latest =
      std::chrono::steady_clock::now() + std::chrono::seconds(limits_.body_seconds);
  while (!parser.is_done()) {
    SetDeadline(limits_.body_pause_seconds);
    deadline_ = std::min(deadline_, latest);
    const auto [error, count] = co_await http::async_read_some(socket_, buffer_, parser, kAwait);
    if (!error) {
      CountBody(parser.get().body().size());
      if (all_bodies_ <= limits_.all_bodies_bytes) continue;
      parser.get().body() = {};
      CountBody(0);
      co_await Refuse(request.path, 503, "too many large requests at once");
      co_return false;
    }
    if (IsProtocolError(error)) {
      co_await Refuse(request.path, StatusOf(error), MessageOf(error, limits_));
    }
    co_return false;
  }
  request.body = std::move(parser.get().body());
  deadline_ = TimePoint::max();
  co_return true;
}

asio::awaitable<bool> HttpConnection::Answer(HttpRequest request) {
  const TimePoint start = std::chrono::steady_clock::now();
  const HttpRequest head{.method = request.method,
                         .path = request.path,
                         .headers = request.headers,
                         .body = {},
                         .id = request.id,
                         .peer = request.peer};
  ResponseStream::Framing framing;
  framing.chunked = http11_;
  framing.keep_alive = keep_alive_ && http11_;
  framing.head_only = request.method == "HEAD";
  framing.headers = handler_.CommonHeaders(head);
  framing.all_unsent = all_unsent_;
  response_ = std::make_shared<ResponseStream>(std::move(framing));
  const auto response = response_;
  response->SetWake([weak = weak_from_this(), &io = io_] {
    asio::post(io, [weak] {
      const auto self = weak.lock();
      if (!self) return;
      self->woken_ = true;
      self->wake_.cancel();
      // Also where a send waits for the client: nobody needs more of the reply.
      if (self->response_ && self->response_->aborted()) self->Close();
    });
  });
  handler_.Handle(std::move(request), response);
  const bool complete = co_await SendAll(*response);
  response->SetWake(nullptr);
  response_.reset();
  if (!complete) response->MarkGone();
  const auto took = std::chrono::steady_clock::now() - start;
  handler_.Log(
      head, *response,
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(took).count()),
      complete);
  if (!complete) co_return false;
  co_return response->keep_alive() && keep_alive_;
}

asio::awaitable<bool> HttpConnection::SendAll(ResponseStream& response) {
  std::string out;
  for (;;) {
    woken_ = false;
    const ResponseStream::State state = response.Take(out);
    if (closed_) co_return false;
    if (!out.empty() && state != ResponseStream::State::kAborted) {
      if (!co_await SendBytes(out)) co_return false;
      out = {};
      response.Sent();
    }
    if (state == ResponseStream::State::kEnded) co_return true;
    if (state == ResponseStream::State::kAborted) co_return false;
    deadline_ = TimePoint::max();
    if (woken_ || closed_) continue;
    wake_.expires_at(TimePoint::max());
    co_await wake_.async_wait(kAwait);
  }
}

asio::awaitable<bool> HttpConnection::SendBytes(std::string_view bytes) {
  while (!bytes.empty()) {
    SetDeadline(limits_.send_seconds);
    const auto [error, count] =
        co_await socket_.async_write_some(asio::buffer(bytes.data(), bytes.size()), kAwait);
    if (error || closed_) co_return false;
    bytes.remove_prefix(count);
  }
  co_return true;
}

// What can't be understood has no head to log.
asio::awaitable<void> HttpConnection::Refuse(std::string_view path, int status,
                                             std::string message) {
  HttpRequest head;
  head.method = "-";
  head.path = path;
  head.peer = peer_;
  head.id = handler_.NewRequestId();
  co_await RefuseRequest(head, handler_.ProtocolError(path, status, std::move(message)));
}

asio::awaitable<void> HttpConnection::RefuseRequest(const HttpRequest& head,
                                                    const HttpResponse& answer) {
  ResponseStream::Framing framing;
  framing.keep_alive = false;
  framing.head_only = head.method == "HEAD";
  framing.headers = handler_.CommonHeaders(head);
  ResponseStream response(std::move(framing));
  response.Send(answer);
  const bool complete = co_await SendAll(response);
  handler_.Log(head, response, 0, complete);
  if (complete) co_await Linger();
}

asio::awaitable<void> HttpConnection::Linger() {
  error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  SetDeadline(kLingerSeconds);
  buffer_.clear();
  std::string discarded(kReadAhead, '\0');
  for (size_t total = 0; total < kMostDiscarded && !closed_;) {
    const auto [error, count] =
        co_await socket_.async_read_some(asio::buffer(discarded.data(), discarded.size()), kAwait);
    if (error) co_return;
    total += count;
  }
}

void HttpConnection::SetDeadline(int seconds) {
  deadline_ = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
}

void HttpConnection::CountBody(size_t bytes) {
  all_bodies_ += bytes - body_;
  body_ = bytes;
}

void HttpConnection::CheckDeadline(TimePoint now) {
  if (now >= deadline_) Close();
}

void HttpConnection::FinishSoon() {
  keep_alive_ = false;
  if (idle_) Close();
}

void HttpConnection::Close() {
  if (std::exchange(closed_, true)) return;
  error_code ignored;
  socket_.close(ignored);
  wake_.cancel();
  woken_ = true;
  if (!response_) return;
  response_->SetWake(nullptr);
  response_->MarkGone();
}

}  // namespace slotstream::server
