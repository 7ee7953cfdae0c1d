#include "server/response_stream.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

namespace slotstream::server {

ResponseStream::~ResponseStream() {
  if (framing_.all_unsent) framing_.all_unsent->held -= counted_;
}

void ResponseStream::CountUnsent() {
  if (!framing_.all_unsent) return;
  const size_t unsent = out_.size() + taken_;
  framing_.all_unsent->held += unsent - counted_;
  counted_ = unsent;
}

bool ResponseStream::Crowded(size_t bytes) const {
  if (!framing_.all_unsent || counted_ + bytes <= kFewUnsent) return false;
  const size_t all = framing_.all_unsent->held;
  return all > counted_ && all + bytes > framing_.all_unsent->most;
}

void ResponseStream::AppendHead(int status, std::string_view content_type,
                                const std::vector<HttpHeader>& headers, std::string_view framing) {
  auto out = std::back_inserter(out_);
  fmt::format_to(out, "HTTP/1.1 {} {}\r\n", status, StatusText(status));
  if (!content_type.empty()) fmt::format_to(out, "Content-Type: {}\r\n", content_type);
  for (const auto* list : {&framing_.headers, &headers}) {
    for (const HttpHeader& header : *list) {
      fmt::format_to(out, "{}: {}\r\n", header.name, header.value);
    }
  }
  fmt::format_to(out, "{}Connection: {}\r\n\r\n", framing,
                 framing_.keep_alive ? "keep-alive" : "close");
  status_.store(status);
}

void ResponseStream::Send(const HttpResponse& response) {
  {
    std::lock_guard lock(mutex_);
    if (state_ != State::kOpen || begun()) return;
    const bool bodiless = response.status == 204 || response.status == 304;
    const std::string length =
        bodiless ? std::string() : fmt::format("Content-Length: {}\r\n", response.body.size());
    AppendHead(response.status, response.body.empty() ? "" : response.content_type,
               response.headers, length);
    state_ = State::kEnded;
    on_gone_ = nullptr;
    if (!framing_.head_only && Crowded(response.body.size())) {
      state_ = State::kAborted;
      gone_.store(true);
    } else if (!framing_.head_only) {
      out_ += response.body;
    }
    CountUnsent();
  }
  Wake();
}

void ResponseStream::Begin(std::string_view content_type) {
  {
    std::lock_guard lock(mutex_);
    if (state_ != State::kOpen || begun()) return;
    chunks_ = framing_.chunked;
    AppendHead(200, content_type, {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}},
               chunks_ ? "Transfer-Encoding: chunked\r\n" : "");
  }
  Wake();
}

void ResponseStream::Write(std::string_view bytes) {
  if (bytes.empty()) return;
  {
    std::lock_guard lock(mutex_);
    if (state_ != State::kOpen || gone_.load() || framing_.head_only) return;
    ++written_;
    if (out_.size() > kMostUnsent || Crowded(bytes.size())) {
      state_ = State::kAborted;
      gone_.store(true);
    } else if (chunks_) {
      fmt::format_to(std::back_inserter(out_), "{:x}\r\n{}\r\n", bytes.size(), bytes);
    } else {
      out_ += bytes;
    }
    CountUnsent();
  }
  Wake();
}

void ResponseStream::End() {
  {
    std::lock_guard lock(mutex_);
    if (state_ != State::kOpen) return;
    if (chunks_ && !framing_.head_only) out_ += "0\r\n\r\n";
    state_ = State::kEnded;
    on_gone_ = nullptr;
  }
  Wake();
}

void ResponseStream::Abort() {
  {
    std::lock_guard lock(mutex_);
    if (state_ != State::kOpen) return;
    state_ = State::kAborted;
    on_gone_ = nullptr;
  }
  Wake();
}

void ResponseStream::OnGone(std::function<void()> callback) {
  {
    std::lock_guard lock(mutex_);
    if (state_ == State::kEnded) return;
    if (!gone_.load()) {
      on_gone_ = std::move(callback);
      return;
    }
  }
  if (callback) callback();
}

void ResponseStream::Note(std::string note) {
  std::lock_guard lock(mutex_);
  note_ = std::move(note);
}

bool ResponseStream::ended() const {
  std::lock_guard lock(mutex_);
  return state_ == State::kEnded;
}

bool ResponseStream::aborted() const {
  std::lock_guard lock(mutex_);
  return state_ == State::kAborted;
}

std::string ResponseStream::note() const {
  std::lock_guard lock(mutex_);
  return note_;
}

ResponseStream::State ResponseStream::Take(std::string& out) {
  std::lock_guard lock(mutex_);
  out = std::exchange(out_, {});
  bytes_ += out.size();
  taken_ += out.size();
  return state_;
}

void ResponseStream::Sent() {
  std::lock_guard lock(mutex_);
  taken_ = 0;
  CountUnsent();
}

void ResponseStream::SetWake(std::function<void()> wake) {
  std::lock_guard lock(mutex_);
  wake_ = std::move(wake);
}

void ResponseStream::Wake() {
  // Under the lock, so that after SetWake no call of the former one is under way.
  std::lock_guard lock(mutex_);
  if (wake_) wake_();
}

void ResponseStream::MarkGone() {
  std::function<void()> callback;
  {
    std::lock_guard lock(mutex_);
    out_ = {};
    taken_ = 0;
    CountUnsent();
    if (state_ == State::kEnded) return;
    gone_.store(true);
    callback = std::exchange(on_gone_, nullptr);
  }
  if (callback) callback();
}

}  // namespace slotstream::server
