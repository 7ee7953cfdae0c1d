#include "cli/interrupt.h"

#include <csignal>

namespace slotstream::cli {
namespace {

std::atomic<bool> interrupted_flag = false;
static_assert(std::atomic<bool>::is_always_lock_free);

void Handle(int) { interrupted_flag.store(true); }

void Install(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;  // without SA_RESTART, so that a blocked read of input returns
  for (int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
}

}  // namespace

InterruptScope::InterruptScope() {
  interrupted_flag.store(false);
  Install(Handle);
}

InterruptScope::~InterruptScope() { Install(SIG_DFL); }

const std::atomic<bool>& InterruptScope::flag() const { return interrupted_flag; }

void InterruptScope::Reset() { interrupted_flag.store(false); }

}  // namespace slotstream::cli
