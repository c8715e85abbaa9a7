// SPDX-License-Identifier: Apache-2.0
//
// What the process has mapped, as the kernel tells. Thread-safety: all of it, from any thread.
#ifndef QUIRE_COMMON_BASE_MAPPED_MEMORY_H_
#define QUIRE_COMMON_BASE_MAPPED_MEMORY_H_

#include <cstddef>
#include <cstdint>

namespace quire {

/// Bytes from `address` to the end of the mapping that it lies in, when that can be written to and
/// is shared with other processes; 0 otherwise. Reads the list of all mappings: not for hot paths.
uint64_t SharedBytesMappedAt(const std::byte* address);

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_MAPPED_MEMORY_H_
