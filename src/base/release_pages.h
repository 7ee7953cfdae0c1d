// Gives memory back to the system while its addresses stay ours.
#pragma once

#include <cstddef>
#include <span>

namespace slotstream {

// `pages` is part of an AlignedBuffer, starts at a page and ends at a page or at the buffer's end.
// They read as zeros afterwards and take memory again when they are written.
void ReleasePages(std::span<std::byte> pages);

}  // namespace slotstream
