#include "cli/local_http.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>

#include "io/owned_fd.h"

namespace slotstream::cli {
namespace {

constexpr size_t kMostBytes = 1 << 20;
using Clock = std::chrono::steady_clock;

std::string Reachable(const std::string& host) {
  if (host == "0.0.0.0" || host.empty()) return "127.0.0.1";
  return host == "::" ? "::1" : host;
}

Error Silent(const std::string& address) {
  return Error{ErrorCode::kIo, fmt::format("{} gives no answer", address)};
}

// Bounds the next call on the socket by what is left until `end`; false if nothing is.
bool SetTimeout(int socket, Clock::time_point end) {
  const auto left = std::chrono::duration_cast<std::chrono::microseconds>(end - Clock::now());
  if (left.count() <= 0) return false;
  const timeval time = {.tv_sec = left.count() / 1'000'000, .tv_usec = left.count() % 1'000'000};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
  return true;
}

Result<io::OwnedFd> Connect(const std::string& host, uint16_t port, Clock::time_point end) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(Reachable(host).c_str(), std::to_string(port).c_str(), &hints, &found) != 0) {
    return Fail(ErrorCode::kNotFound, fmt::format("{} is no address of this machine", host));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  io::OwnedFd fd(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid() || !SetTimeout(fd.get(), end) ||
      connect(fd.get(), found->ai_addr, found->ai_addrlen) != 0) {
    return Fail(
        errno == EINPROGRESS ? ErrorCode::kIo : ErrorCode::kNotFound,
        fmt::format("nobody listens on {}: {}", LocalAddress(host, port), std::strerror(errno)));
  }
  return fd;
}

}  // namespace

std::string LocalAddress(const std::string& host, uint16_t port) {
  const std::string name = Reachable(host);
  return name.contains(':') ? fmt::format("[{}]:{}", name, port) : fmt::format("{}:{}", name, port);
}

Result<LocalAnswer> GetLocal(const std::string& host, uint16_t port, const std::string& path,
                             const std::string& key, std::chrono::milliseconds limit) {
  const auto end = Clock::now() + limit;
  const std::string address = LocalAddress(host, port);
  SS_ASSIGN_OR_RETURN(const io::OwnedFd fd, Connect(host, port, end));
  // HTTP/1.0, so that the answer comes in one piece and ends with the connection.
  std::string request = fmt::format("GET {} HTTP/1.0\r\nHost: {}\r\n", path, address);
  if (!key.empty()) request += fmt::format("Authorization: Bearer {}\r\n", key);
  request += "\r\n";
  if (send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(request.size())) {
    return std::unexpected(Silent(address));
  }
  std::string received;
  char buffer[16 * 1024];
  while (received.size() < kMostBytes) {
    if (!SetTimeout(fd.get(), end)) return std::unexpected(Silent(address));
    const ssize_t count = recv(fd.get(), buffer, sizeof buffer, 0);
    if (count < 0) return std::unexpected(Silent(address));
    if (count == 0) break;
    received.append(buffer, static_cast<size_t>(count));
  }
  const size_t head_end = received.find("\r\n\r\n");
  LocalAnswer answer;
  if (head_end == std::string::npos || !received.starts_with("HTTP/1.") ||
      std::sscanf(received.c_str(), "HTTP/1.%*d %d", &answer.status) != 1) {
    return Fail(ErrorCode::kIo, fmt::format("what {} says is no HTTP", address));
  }
  answer.body = received.substr(head_end + 4);
  return answer;
}

}  // namespace slotstream::cli
