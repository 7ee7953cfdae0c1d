#include "bench/quiet_cores.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"

namespace slotstream::bench {
namespace {

constexpr uint64_t kCheckNanos = 10'000'000;
// A core of our own gives 1, half a core 0.5; many cores at once clock lower than one alone (0.85
// on servers of the day).
constexpr double kMostOfIt = 0.75;
// Of the measured threads' time: a passing interrupt of the hypervisor, not a neighbour.
constexpr double kStolenShare = 0.02;

// Workers of what was measured may spin for a while before they sleep: libgomp's, which the peer
// has, for 300,000 pauses, 4 to 14 ms.
constexpr std::chrono::milliseconds kSpinningEnds(20);

// Rotations per second of a dependent chain on this thread: one a cycle. (Chained additions of
// constants are more, where a processor adds the constants up first.)
double ChainRate() {
  constexpr int kBlock = 2000;
  const Clock& clock = Clock::Steady();
  uint64_t bits = 1;
  uint64_t rotations = 0;
  const uint64_t start = clock.NowNanos();
  uint64_t elapsed = 0;
  do {
    for (int i = 0; i < kBlock; ++i) {
#if defined(__x86_64__)
      asm volatile("rol $1, %0\n\trol $1, %0\n\trol $1, %0\n\trol $1, %0" : "+r"(bits) : : "cc");
#elif defined(__aarch64__)
      asm volatile("ror %0, %0, #1\n\tror %0, %0, #1\n\tror %0, %0, #1\n\tror %0, %0, #1"
                   : "+r"(bits));
#endif
    }
    rotations += 4 * kBlock;
    elapsed = clock.NowNanos() - start;
  } while (elapsed < kCheckNanos);
  return static_cast<double>(rotations) / static_cast<double>(elapsed) * 1e9;
}

}  // namespace

QuietCores::QuietCores(bool everything_counts) : everything_counts_(everything_counts) {
  // The fastest of many: another program may hold this core for some of them.
  for (int i = 0; i < 20; ++i) reference_ = std::max(reference_, ChainRate());
}

bool QuietCores::Ours(int threads) {
  if (everything_counts_) return true;
  std::vector<double> rates(static_cast<size_t>(threads));
  std::vector<std::thread> others;
  for (size_t i = 1; i < rates.size(); ++i) {
    others.emplace_back([&rates, i] { rates[i] = ChainRate(); });
  }
  rates[0] = ChainRate();
  for (std::thread& thread : others) thread.join();
  reference_ = std::max(reference_, *std::max_element(rates.begin(), rates.end()));
  return *std::min_element(rates.begin(), rates.end()) >= kMostOfIt * reference_;
}

uint64_t StolenTicks() {
  // cpu user nice system idle iowait irq softirq steal (proc(5))
  std::ifstream file("/proc/stat");
  std::string word;
  for (int i = 0; i < 8; ++i) file >> word;
  uint64_t stolen = 0;
  file >> stolen;
  return stolen;
}

QuietWindow::QuietWindow(QuietCores& cores, int threads)
    : cores_(cores),
      threads_(threads),
      start_nanos_(Clock::Steady().NowNanos()),
      stolen_(StolenTicks()),
      quiet_before_(cores.Ours(threads)) {}

bool QuietWindow::Counts() {
  if (cores_.everything_counts()) return true;
  const auto nanos = static_cast<double>(Clock::Steady().NowNanos() - start_nanos_);
  const double ticks = nanos * 1e-9 * static_cast<double>(sysconf(_SC_CLK_TCK)) * threads_;
  // One tick more, because short measurements have few.
  const bool stolen = static_cast<double>(StolenTicks() - stolen_) > 1 + kStolenShare * ticks;
  std::this_thread::sleep_for(kSpinningEnds);
  return quiet_before_ && !stolen && cores_.Ours(threads_);
}

}  // namespace slotstream::bench
