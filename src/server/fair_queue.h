// A bounded queue that takes turns among those who wait.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <utility>

namespace slotstream::server {

// Items of one key keep their order; keys are served in turn, so that one with many items does not
// hold up the others. Not thread-safe.
template <typename T>
class FairQueue {
 public:
  explicit FairQueue(size_t limit) : limit_(limit) {}

  // False if the queue is full.
  bool Push(const std::string& key, T item) {
    if (size_ >= limit_) return false;
    ++size_;
    for (Lane& lane : lanes_) {
      if (lane.key == key) {
        lane.items.push_back(std::move(item));
        return true;
      }
    }
    lanes_.push_back({key, {}});
    lanes_.back().items.push_back(std::move(item));
    return true;
  }

  std::optional<T> Pop() {
    if (lanes_.empty()) return std::nullopt;
    Lane lane = std::move(lanes_.front());
    lanes_.pop_front();
    T item = std::move(lane.items.front());
    lane.items.pop_front();
    --size_;
    if (!lane.items.empty()) lanes_.push_back(std::move(lane));
    return item;
  }

  // True if it was there.
  bool Remove(const T& item) {
    for (auto lane = lanes_.begin(); lane != lanes_.end(); ++lane) {
      for (auto it = lane->items.begin(); it != lane->items.end(); ++it) {
        if (!(*it == item)) continue;
        lane->items.erase(it);
        if (lane->items.empty()) lanes_.erase(lane);
        --size_;
        return true;
      }
    }
    return false;
  }

  size_t size() const { return size_; }

  template <typename Function>
  void ForEach(Function function) const {
    for (const Lane& lane : lanes_) {
      for (const T& item : lane.items) function(item);
    }
  }

 private:
  struct Lane {
    std::string key;
    std::deque<T> items;  // never empty
  };
  std::deque<Lane> lanes_;
  size_t limit_;
  size_t size_ = 0;
};

}  // namespace slotstream::server
