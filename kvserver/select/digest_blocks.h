// SPDX-License-Identifier: Apache-2.0
//
// DigestBlocks: the digests of consecutive pages of one layer, as blocks of g pages anywhere in
// memory. A chain's digests are scored in place in the store. Ownership: keeps every block's owner.
// Thread-safety: a value type. Units: page numbers count from the context's start. A block is
// [pages][n_kv][DigestElements(kind, key_dim)], all of one kind.
#ifndef QUIRE_KVSERVER_SELECT_DIGEST_BLOCKS_H_
#define QUIRE_KVSERVER_SELECT_DIGEST_BLOCKS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/payload.h"
#include "common/base/status.h"
#include "common/page/kv_spec.h"
#include "kernels/api/page_digest.h"
#include "kvserver/store/page_store.h"

namespace quire::kvserver {

using kernels::DigestKind;
using kernels::PageDigestBytes;

/// Digests of pages [first_page, end_page) of a context at one layer.
struct DigestRange {
  uint32_t layer = 0;
  uint32_t first_page = 0;
  uint32_t end_page = 0;
  DigestKind kind = DigestKind::kMinMax;
};

class DigestBlocks {
 public:
  /// The first block starts at `first_page`, a multiple of g.
  DigestBlocks(const KvSpec& spec, uint32_t first_page, DigestKind kind = DigestKind::kMinMax)
      : pages_per_block_(spec.segment_pages),
        page_bytes_(PageDigestBytes(spec, kind)),
        first_page_(first_page),
        end_page_(first_page) {}

  /// Appends the next block: whole pages, at most g. Only the last block may have fewer.
  void Append(Slice block);

  uint32_t first_page() const { return first_page_; }
  uint32_t end_page() const { return end_page_; }
  uint32_t pages_per_block() const { return pages_per_block_; }
  /// One pointer per block, for the score kernel.
  std::span<const void* const> pointers() const { return pointers_; }
  /// Appends the bytes of pages [first, end) to `out` without copying. REQUIRES: the pages are
  /// inside.
  void AppendTo(uint32_t first, uint32_t end, Payload* out) const;

 private:
  uint32_t pages_per_block_;
  uint64_t page_bytes_;
  uint32_t first_page_;
  uint32_t end_page_;
  std::vector<Slice> blocks_;
  std::vector<const void*> pointers_;
};

/// Reads the digests of the stored segments that cover the range. `keys` are the chain's segments
/// in order. NOT_FOUND when one is gone, DATA_LOSS when damaged.
[[nodiscard]] StatusOr<DigestBlocks> ReadDigestBlocks(PageStore& store, const Caller& caller,
                                                      const KvSpec& spec,
                                                      std::span<const SegmentKey> keys,
                                                      const DigestRange& range);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SELECT_DIGEST_BLOCKS_H_
