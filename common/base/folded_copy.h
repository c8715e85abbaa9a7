// SPDX-License-Identifier: Apache-2.0
//
// FoldedCopy: the copies of unit_copy.h on processors with carry-less multiplication of whole cache
// lines (AVX-512 and VPCLMULQDQ; Intel since Ice Lake, AMD since Zen 4). Such a checksum takes a
// fraction of the time that memory needs for the bytes, so what is read later can be fetched line
// by line meanwhile; and stores go around the cache.
// Thread-safety: pure functions.
#ifndef QUIRE_COMMON_BASE_FOLDED_COPY_H_
#define QUIRE_COMMON_BASE_FOLDED_COPY_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace quire {

/// What FoldedCopy copies at a time.
inline constexpr size_t kFoldedBlockBytes = 256;

/// Whether this processor can run FoldedCopy.
bool HasFoldedCopy();
/// Has HasFoldedCopy say no, or the truth again: so that tests find what other processors run.
void HideFoldedCopyForTesting(bool hide);

enum class CopyChecksum { kNone, kCrc32c };

/// Copies `from`, a multiple of kFoldedBlockBytes and at least one, to `to`, which starts a cache
/// line and does not overlap it; Crc32c(from), or 0 when none is asked for. `next`: where the next
/// copy begins, null when there is none. REQUIRES: HasFoldedCopy().
uint32_t FoldedCopy(std::span<const std::byte> from, std::byte* to, const std::byte* next,
                    CopyChecksum checksum);

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_FOLDED_COPY_H_
