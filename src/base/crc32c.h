// CRC-32C (Castagnoli, polynomial 0x1EDC6F41, reflected), as in iSCSI (RFC 3720) and ext4.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace slotstream {

// CRC-32C of `data`, continuing from `crc` (0 to start). Uses the processor's instruction where
// there is one; the value is the same everywhere. Thread-safe.
uint32_t Crc32c(std::span<const std::byte> data, uint32_t crc = 0);

// The table-driven version, for processors without the instruction and for tests.
uint32_t Crc32cPortable(std::span<const std::byte> data, uint32_t crc = 0);

}  // namespace slotstream
