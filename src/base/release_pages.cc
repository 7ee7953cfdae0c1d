#include "base/release_pages.h"

#include <sys/mman.h>

namespace slotstream {

void ReleasePages(std::span<std::byte> pages) {
  if (pages.empty()) return;
  // Locked pages refuse to go.
  munlock(pages.data(), pages.size());
  madvise(pages.data(), pages.size(), MADV_DONTNEED);
}

}  // namespace slotstream
