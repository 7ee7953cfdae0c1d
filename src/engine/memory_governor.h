// Keeps a running engine's caches as large as the machine's memory allows (plan/governor.h).
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "engine/loaded_model.h"
#include "engine/prefix_reuse.h"
#include "plan/governor.h"

namespace slotstream::engine {

class MemoryGovernor {
 public:
  // `loaded`, `prefixes` and `clock` outlive it. `system_root`: see plan::ReadMachineFacts. `log`
  // is told in a line of what was given back, at once, and of what grew, summed up; may be empty. A
  // plan that may not change makes this do nothing.
  MemoryGovernor(LoadedModel& loaded, PrefixReuse& prefixes, const Clock& clock,
                 std::string system_root, std::function<void(std::string_view)> log);

  // To be called at points where nothing uses the caches: between passes, and now and then while
  // there is no work. Looks at the system at most some times a second, so calls cost nothing.
  void Step();

 private:
  // Of the caches as they are.
  plan::CacheSizes Sizes() const;
  // Says what has changed since it last did.
  void Tell(const plan::CacheSizes& sizes, uint64_t now);

  LoadedModel& loaded_;
  PrefixReuse& prefixes_;
  const Clock& clock_;
  plan::SystemFiles files_;
  std::function<void(std::string_view)> log_;
  plan::GovernorLimits limits_;
  plan::GovernorState state_;
  uint64_t next_look_ = 0;  // nanoseconds
  plan::CacheSizes told_;
  std::string reason_;    // of the last change
  uint64_t told_at_ = 0;  // nanoseconds
};

}  // namespace slotstream::engine
