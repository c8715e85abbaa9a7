// SPDX-License-Identifier: Apache-2.0
#include "kvserver/select/digest_blocks.h"

#include <algorithm>
#include <utility>

namespace quire::kvserver {

void DigestBlocks::Append(Slice block) {
  end_page_ += static_cast<uint32_t>(block.bytes.size() / page_bytes_);
  pointers_.push_back(block.bytes.data());
  blocks_.push_back(std::move(block));
}

void DigestBlocks::AppendTo(uint32_t first, uint32_t end, Payload* out) const {
  for (size_t b = (first - first_page_) / pages_per_block_; b < blocks_.size(); ++b) {
    const auto start = static_cast<uint32_t>(first_page_ + b * pages_per_block_);
    const auto pages = static_cast<uint32_t>(blocks_[b].bytes.size() / page_bytes_);
    const uint32_t from = std::max(first, start), to = std::min(end, start + pages);
    if (from >= to) return;
    out->Append({blocks_[b].bytes.subspan((from - start) * page_bytes_, (to - from) * page_bytes_),
                 blocks_[b].owner});
  }
}

StatusOr<DigestBlocks> ReadDigestBlocks(PageStore& store, const Caller& caller, const KvSpec& spec,
                                        std::span<const SegmentKey> keys,
                                        const DigestRange& range) {
  const uint32_t first_segment = range.first_page / spec.segment_pages;
  const uint64_t page_bytes = PageDigestBytes(spec, range.kind);
  DigestBlocks blocks(spec, first_segment * spec.segment_pages, range.kind);
  for (size_t s = first_segment; s < keys.size() && blocks.end_page() < range.end_page; ++s) {
    QUIRE_ASSIGN_OR_RETURN(SegmentDigests digests,
                           store.ReadDigests(caller, keys[s], range.layer, range.kind));
    const bool whole = digests.num_pages == spec.segment_pages || s + 1 == keys.size();
    if (!whole || digests.bytes->size() != digests.num_pages * page_bytes) {
      return Internal("digests of segment ", keys[s].Hex(), " have ", digests.bytes->size(),
                      " bytes for ", digests.num_pages, " pages");
    }
    const std::span<const std::byte> bytes(*digests.bytes);
    blocks.Append(Slice{bytes, std::move(digests.bytes)});
  }
  return blocks;
}

}  // namespace quire::kvserver
