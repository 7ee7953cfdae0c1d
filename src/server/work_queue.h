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

  // `work` must not throw. Of `large` work one piece is done at a time, the others wait while small
  // work goes on; what it freed is given back to the system. Any thread.
  void Run(std::function<void()> work, bool large = false);

 private:
  struct Piece {
    std::function<void()> work;
    bool large = false;
  };
  void Loop();
  std::deque<Piece>::iterator Next();  // with mutex_

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Piece> pieces_;
  bool large_runs_ = false;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace slotstream::server
