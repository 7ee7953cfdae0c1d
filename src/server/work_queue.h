// A few threads for work that is too long for the HTTP thread: parsing, rendering, encoding.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace slotstream::server {

class WorkQueue {
 public:
  explicit WorkQueue(int threads);
  // Drops what has not begun and waits for the rest.
  ~WorkQueue();

  // `work` must not throw. Any thread.
  void Run(std::function<void()> work);

 private:
  void Loop();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> work_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace slotstream::server
