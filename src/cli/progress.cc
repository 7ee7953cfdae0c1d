#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "base/clock.h"

namespace slotstream::cli {
namespace {

constexpr uint64_t kDrawEveryNanos = 100'000'000;
constexpr int kBarWidth = 30;

}  // namespace

ProgressBar::ProgressBar(std::string label)
    : label_(std::move(label)),
      terminal_(isatty(STDERR_FILENO) == 1),
      start_nanos_(Clock::Steady().NowNanos()) {}

void ProgressBar::Update(uint64_t done, uint64_t total) {
  if (!terminal_ || total == 0) return;
  const uint64_t now = Clock::Steady().NowNanos();
  if (now - last_nanos_ < kDrawEveryNanos) return;
  last_nanos_ = now;
  drawn_ = true;
  const double share = static_cast<double>(done) / static_cast<double>(total);
  const double seconds = static_cast<double>(now - start_nanos_) / 1e9;
  const int filled = static_cast<int>(share * kBarWidth);
  fmt::print(stderr, "\r{} [{:#<{}}{:-<{}}] {:3.0f}% {:.0f} s left \033[K", label_, "", filled, "",
             kBarWidth - filled, share * 100, share > 0 ? seconds * (1 - share) / share : 0.0);
  std::fflush(stderr);
}

void ProgressBar::Finish() {
  if (!drawn_) return;
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
  drawn_ = false;
}

void PhaseBars::Update(std::string_view phase, uint64_t done, uint64_t total) {
  if (!bar_ || phase != phase_) {
    Finish();
    phase_ = phase;
    bar_.emplace(phase_);
  }
  bar_->Update(done, total);
}

void PhaseBars::Finish() {
  if (bar_) bar_->Finish();
  bar_.reset();
}

}  // namespace slotstream::cli
