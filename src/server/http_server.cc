#include "server/http_server.h"

#include <fmt/format.h>
#include <poll.h>

#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <list>
#include <thread>
#include <utility>
#include <vector>

#include "server/http_connection.h"

namespace slotstream::server {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using tcp = asio::ip::tcp;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
// How soon a vanished client is noticed and a deadline acts; a token takes about as long.
constexpr auto kSweep = std::chrono::milliseconds(100);
// Pause when the process has no descriptor left for another connection.
constexpr auto kAcceptPause = std::chrono::milliseconds(100);

}  // namespace

struct HttpServer::State {
  State(HttpHandler& handler_arg, const HttpLimits& limits_arg)
      : handler(handler_arg), limits(limits_arg), acceptor(io), sweep(io) {}

  Status Listen(const HttpOptions& options);
  asio::awaitable<void> AcceptLoop();
  asio::awaitable<void> SweepLoop();
  asio::awaitable<void> Serve(std::shared_ptr<HttpConnection> connection);
  void Admit(tcp::socket socket);
  bool DropSlowest();
  void WatchPeers();

  HttpHandler& handler;
  const HttpLimits limits;
  size_t all_bodies = 0;  // bytes; the connections count in it until they go with `io`
  const std::shared_ptr<ResponseStream::AllUnsent> all_unsent =
      std::make_shared<ResponseStream::AllUnsent>(limits.all_unsent_bytes);
  asio::io_context io{1};
  tcp::acceptor acceptor;
  asio::steady_timer sweep;
  std::list<std::shared_ptr<HttpConnection>> connections;
  std::atomic<bool> stopping = false;
  std::atomic<size_t> answering = 0;  // connections, as of the last sweep
  std::thread thread;
};

Status HttpServer::State::Listen(const HttpOptions& options) {
  error_code error;
  tcp::resolver resolver(io);
  const auto found =
      resolver.resolve(options.host, std::to_string(options.port),
                       tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error || found.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("--host {}: no such address on this machine ({})", options.host,
                            error.message()));
  }
  const tcp::endpoint endpoint = found.begin()->endpoint();
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error && endpoint.address().is_v6()) {
    acceptor.set_option(asio::ip::v6_only(false), error);
  }
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error == asio::error::address_in_use) {
    return Fail(ErrorCode::kIo,
                fmt::format("port {} of {} is in use, perhaps by another slotstream "
                            "or by Ollama; stop it or choose another with --port",
                            options.port, options.host));
  }
  if (error) {
    return Fail(ErrorCode::kIo, fmt::format("cannot listen on {} port {}: {}", options.host,
                                            options.port, error.message()));
  }
  return {};
}

asio::awaitable<void> HttpServer::State::AcceptLoop() {
  for (;;) {
    auto [error, socket] = co_await acceptor.async_accept(kAwait);
    if (stopping) co_return;
    if (!error) {
      Admit(std::move(socket));
      continue;
    }
    if (error == asio::error::operation_aborted) co_return;
    DropSlowest();
    asio::steady_timer pause(io, kAcceptPause);
    co_await pause.async_wait(kAwait);
  }
}

void HttpServer::State::Admit(tcp::socket socket) {
  // Where all are at work a newcomer is turned away by closing; its client sees no answer at all.
  if (connections.size() >= limits.connections && !DropSlowest()) return;
  connections.push_back(std::make_shared<HttpConnection>(io, std::move(socket), handler, limits,
                                                         all_bodies, all_unsent));
  asio::co_spawn(io, Serve(connections.back()), asio::detached);
}

asio::awaitable<void> HttpServer::State::Serve(std::shared_ptr<HttpConnection> connection) {
  try {
    co_await connection->Run();
  } catch (const std::exception&) {
    // No memory for this connection; the others go on.
  }
  connection->Close();
  connections.remove(connection);
}

// Closes the connection whose next request has been awaited longest, one that has sent nothing of
// it before one that has sent a part; false if all requests have come.
bool HttpServer::State::DropSlowest() {
  HttpConnection* slowest = nullptr;
  const auto order = [](const HttpConnection& connection) {
    return std::pair(!connection.idle(), connection.quiet_since());
  };
  for (const auto& connection : connections) {
    if (!connection->awaiting_request()) continue;
    if (slowest == nullptr || order(*connection) < order(*slowest)) slowest = connection.get();
  }
  if (slowest != nullptr) slowest->Close();
  return slowest != nullptr;
}

asio::awaitable<void> HttpServer::State::SweepLoop() {
  for (;;) {
    sweep.expires_after(kSweep);
    const auto [error] = co_await sweep.async_wait(kAwait);
    if (error) co_return;
    WatchPeers();
    const auto now = std::chrono::steady_clock::now();
    for (const auto& connection : connections) connection->CheckDeadline(now);
    handler.Tick();
  }
}

// A peer that closed its end, or just the sending half of it, waits for no answer.
void HttpServer::State::WatchPeers() {
  std::vector<pollfd> polls;
  std::vector<HttpConnection*> watched;
  for (const auto& connection : connections) {
    if (!connection->answering()) continue;
    polls.push_back({connection->descriptor(), POLLRDHUP, 0});
    watched.push_back(connection.get());
  }
  size_t busy = 0;
  for (const auto& connection : connections) busy += connection->idle() ? 0 : 1;
  answering = busy;
  if (polls.empty() || poll(polls.data(), polls.size(), 0) <= 0) return;
  for (size_t i = 0; i < polls.size(); ++i) {
    if ((polls[i].revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) watched[i]->Close();
  }
}

HttpServer::HttpServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<HttpServer>> HttpServer::Bind(const HttpOptions& options,
                                                     HttpHandler& handler) {
  auto state = std::make_unique<State>(handler, options.limits);
  SS_RETURN_IF_ERROR(state->Listen(options));
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
}

HttpServer::~HttpServer() {
  state_->stopping = true;
  if (!state_->thread.joinable()) return;
  asio::post(state_->io, [state = state_.get()] {
    error_code ignored;
    state->acceptor.close(ignored);
    for (const auto& connection : state->connections) connection->Close();
    state->io.stop();
  });
  state_->thread.join();
  // What the connections' coroutines hold goes with them, before the rest.
  for (const auto& connection : state_->connections) connection->Close();
}

uint16_t HttpServer::port() const {
  error_code ignored;
  return state_->acceptor.local_endpoint(ignored).port();
}

void HttpServer::Start() {
  asio::co_spawn(state_->io, state_->AcceptLoop(), asio::detached);
  asio::co_spawn(state_->io, state_->SweepLoop(), asio::detached);
  state_->thread = std::thread([io = &state_->io] { io->run(); });
}

void HttpServer::StopAccepting() {
  asio::post(state_->io, [state = state_.get()] {
    state->stopping = true;
    error_code ignored;
    state->acceptor.close(ignored);
    for (const auto& connection : state->connections) connection->FinishSoon();
  });
}

bool HttpServer::Quiet() const { return state_->answering == 0; }

}  // namespace slotstream::server
