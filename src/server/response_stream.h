// The answer to one request on its way from whoever writes it to the connection that sends it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "server/http_message.h"

namespace slotstream::server {

// Written by any thread, one at a time; sent by the connection's. Writing never waits: bytes
// gather here, and a stream whose client leaves more than kMostUnsent of them is cut; so is the
// next to write more than kFewUnsent where all streams together leave too much.
class ResponseStream {
 public:
  // Text comes in pieces of some hundred bytes a token, so this is thousands of tokens that a
  // client did not take.
  static constexpr size_t kMostUnsent = 1 << 20, kFewUnsent = 64 << 10;

  // Of all streams together.
  struct AllUnsent {
    size_t most = 0;  // bytes
    std::atomic<size_t> held = 0;
  };
  struct Framing {
    bool chunked = true;     // the client understands chunks (HTTP/1.1)
    bool keep_alive = true;  // the connection is used again
    bool head_only = false;  // answers HEAD
    std::vector<HttpHeader> headers;
    std::shared_ptr<AllUnsent> all_unsent = nullptr;  // may be null
  };
  explicit ResponseStream(Framing framing) : framing_(std::move(framing)) {}
  ~ResponseStream();
  ResponseStream(const ResponseStream&) = delete;
  ResponseStream& operator=(const ResponseStream&) = delete;

  // The writer's side. One Send; or Begin, any number of Write, and End or Abort. What comes after
  // the end is dropped.
  void Send(const HttpResponse& response);
  void Begin(std::string_view content_type);
  void Write(std::string_view bytes);
  void End();
  // The client sees a broken answer; for streams that can't be ended in their own terms.
  void Abort();

  // All was written.
  bool ended() const;
  // Nothing more is sent: Abort, or a client that left too much waiting.
  bool aborted() const;
  bool begun() const { return status_.load() != 0; }
  // The client left or was cut before the end.
  bool gone() const { return gone_.load(); }
  // `callback` is called once on the connection's thread when the client goes before the end, or
  // at once if it has gone. Another call replaces it; an empty one takes it back.
  void OnGone(std::function<void()> callback);
  // Counts what was written; never falls.
  uint64_t written() const { return written_.load(); }
  // What the access log says beside the request's own facts; no prompt text.
  void Note(std::string note);

  // The connection's side.
  enum class State { kOpen, kEnded, kAborted };
  // Moves what is to be sent into `out`.
  State Take(std::string& out);
  // What was taken is on its way.
  void Sent();
  // `wake` is called from any thread when there is more to take; it must not call back. When this
  // returns, the former one is never called again.
  void SetWake(std::function<void()> wake);
  void MarkGone();

  bool keep_alive() const { return framing_.keep_alive; }
  int status() const { return status_.load(); }  // 0 before the head
  uint64_t bytes() const { return bytes_.load(); }
  std::string note() const;

 private:
  void AppendHead(int status, std::string_view content_type, const std::vector<HttpHeader>& headers,
                  std::string_view framing);
  void Wake();
  // With mutex_: brings all_unsent up to date; `bytes` more would be too many.
  void CountUnsent();
  bool Crowded(size_t bytes) const;

  const Framing framing_;
  mutable std::mutex mutex_;
  std::string out_;
  size_t taken_ = 0;    // and not sent
  size_t counted_ = 0;  // in all_unsent
  State state_ = State::kOpen;
  bool chunks_ = false;  // a body in chunks was begun
  std::function<void()> on_gone_, wake_;
  std::string note_;
  std::atomic<int> status_ = 0;
  std::atomic<bool> gone_ = false;
  std::atomic<uint64_t> written_ = 0;
  std::atomic<uint64_t> bytes_ = 0;  // of body and framing, as taken
};

}  // namespace slotstream::server
