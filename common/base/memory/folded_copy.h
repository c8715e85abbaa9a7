// SPDX-License-Identifier: Apache-2.0
//
// FoldedCopy: the copies of unit_copy.h for processors that multiply whole cache lines without
// carry. These have AVX-512 with VPCLMULQDQ: Intel since Ice Lake, AMD since Zen 4. The checksum
// takes a fraction of the memory's time. The copy uses the rest to prefetch the next source line by
// line. Stores bypass the cache. Thread-safety: pure functions.
#ifndef QUIRE_COMMON_BASE_MEMORY_FOLDED_COPY_H_
#define QUIRE_COMMON_BASE_MEMORY_FOLDED_COPY_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace quire {

/// Bytes that FoldedCopy copies at a time.
inline constexpr size_t kFoldedBlockBytes = 256;

/// True when this processor can run FoldedCopy.
bool HasFoldedCopy();
/// Makes HasFoldedCopy return false, or the truth again. Tests exercise other processors' code this
/// way.
void HideFoldedCopyForTesting(bool hide);

enum class CopyChecksum { kNone, kCrc32c };

/// Copies `from` to `to` and returns Crc32c(from), or 0 with CopyChecksum::kNone. `from` has a
/// multiple of kFoldedBlockBytes, at least one. `to` starts a cache line and does not overlap
/// `from`. `next` is the start of the next copy's source; null when there is none. REQUIRES:
/// HasFoldedCopy().
uint32_t FoldedCopy(std::span<const std::byte> from, std::byte* to, const std::byte* next,
                    CopyChecksum checksum);

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_MEMORY_FOLDED_COPY_H_
