// Whether the cores are really ours: a virtual machine may get less processor time than it has
// cores, and a figure of several threads is then a figure about the neighbours.
#pragma once

#include <cstdint>

namespace slotstream::bench {

// Measured, not believed: a chain of dependent rotations takes one cycle each, so rotations per
// second are the clock rate that a thread really gets.
class QuietCores {
 public:
  // Takes the rate of one thread alone as the reference; 0.2 s. With
  // `everything_counts` nothing is checked: for runs that only show that they work.
  explicit QuietCores(bool everything_counts = false);

  // True if `threads` threads at once each get most of the reference rate. Takes 10 ms.
  bool Ours(int threads);

  bool everything_counts() const { return everything_counts_; }

  // Rotations per second of one thread, in 1e9: about the clock in GHz.
  double reference_ghz() const { return reference_ * 1e-9; }

 private:
  bool everything_counts_;
  double reference_ = 0;
};

// Clock ticks (10 ms as a rule) that the hypervisor has taken from this machine since it started;
// 0 where the system does not say.
uint64_t StolenTicks();

// Brackets one measurement with both checks.
class QuietWindow {
 public:
  QuietWindow(QuietCores& cores, int threads);
  // Whether the measurement that just ended counts.
  bool Counts();

 private:
  QuietCores& cores_;
  int threads_;
  uint64_t start_nanos_;
  uint64_t stolen_;
  bool quiet_before_;
};

}  // namespace slotstream::bench
