#include "bench/options.h"

#include <sys/prctl.h>

#include <algorithm>
#include <iterator>

#include "plan/machine.h"

namespace slotstream::bench {

Result<Setup> MakeSetup(const CommonOptions& options) {
  if (options.small_pages && prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0) {
    return Fail(ErrorCode::kUnsupported, "this system cannot do without huge pages on request");
  }
  Setup setup;
  setup.threads = options.threads;
  if (setup.threads.empty()) {
    setup.threads = {1};
    if (const int cores = plan::ReadMachineFacts().cores; cores > 1) setup.threads.push_back(cores);
  }
  std::vector<std::string> isas = options.isas;
  if (isas.empty()) isas = {"auto"};
  for (const std::string& name : isas) {
    SS_ASSIGN_OR_RETURN(const kernels::KernelTable* table, kernels::SelectKernels(name));
    if (std::find(setup.tables.begin(), setup.tables.end(), table) == setup.tables.end()) {
      setup.tables.push_back(table);
    }
  }
  for (const std::string& name : options.modes) {
    SS_ASSIGN_OR_RETURN(setup.modes.emplace_back(), kernels::ParseComputeMode(name));
  }
  if (setup.modes.empty()) {
    setup.modes.assign(std::begin(kernels::kComputeModes), std::end(kernels::kComputeModes));
  }
  return setup;
}

}  // namespace slotstream::bench
