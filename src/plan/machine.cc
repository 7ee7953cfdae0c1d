#include "plan/machine.h"

#include "plan/control_groups.h"
#include "plan/system_files.h"

namespace slotstream::plan {

MachineFacts ReadMachineFacts(const std::string& root) {
  const SystemFiles files(root);
  MachineFacts facts;
  facts.memory = ReadMemoryFacts(files);
  facts.memory.lock_limit = ReadLockLimit();
  facts.cpu = ReadCpuFacts(files);
  facts.gpus = ReadGpuNames(files);
  facts.container = InContainer(files);
  facts.memory_available = facts.memory.available;
  facts.memory_total = facts.memory.total == kUnlimited ? 0 : facts.memory.total;
  facts.cores = facts.cpu.cores;
  return facts;
}

}  // namespace slotstream::plan
