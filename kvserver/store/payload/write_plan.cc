// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/payload/write_plan.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kvserver/store/payload/location.h"

namespace quire::kvserver {

WritePlan::WritePlan(std::span<const ByteSpan> spans) : spans_(spans) {
  for (const ByteSpan span : spans) left_ += span.size();
  Skip(0);
}

ByteSpan WritePlan::Contiguous(uint64_t limit) const {
  ByteSpan ahead = spans_.front().subspan(offset_);
  for (const ByteSpan next : spans_.subspan(1)) {
    if (ahead.size() >= limit || next.data() != ahead.data() + ahead.size()) break;
    ahead = {ahead.data(), ahead.size() + next.size()};
  }
  return ahead.first(std::min<uint64_t>(ahead.size(), limit));
}

ByteSpan WritePlan::Straight(ByteSpan ahead, uint64_t memory_alignment) const {
  if (reinterpret_cast<uintptr_t>(ahead.data()) % memory_alignment != 0) return {};
  const uint64_t bytes = RoundDown(ahead.size(), kBlockBytes);
  return bytes >= std::min<uint64_t>(kStraightBytes, left_) ? ahead.first(bytes) : ByteSpan();
}

void WritePlan::Skip(uint64_t bytes) {
  left_ -= bytes;
  offset_ += bytes;
  while (!spans_.empty() && offset_ >= spans_.front().size()) {
    offset_ -= spans_.front().size();
    spans_ = spans_.subspan(1);
  }
}

StatusOr<PlannedWrite> WritePlan::Next(uint64_t limit, uint64_t memory_alignment,
                                       AlignedBufferPool& pool) {
  if (const ByteSpan bytes = Straight(Contiguous(limit), memory_alignment); !bytes.empty()) {
    Skip(bytes.size());
    return PlannedWrite{bytes, {}};
  }
  const uint64_t size = limit < left_ ? limit : RoundUp(left_, kBlockBytes);
  QUIRE_ASSIGN_OR_RETURN(AlignedBuffer buffer, pool.Take(size));
  return Gather(std::move(buffer), memory_alignment);
}

PlannedWrite WritePlan::Gather(AlignedBuffer buffer, uint64_t memory_alignment) {
  const std::span<std::byte> room = buffer.bytes();
  size_t filled = 0;
  while (filled < room.size() && left_ > 0) {
    const bool at_block = filled > 0 && filled % kBlockBytes == 0;
    if (at_block && !Straight(Contiguous(kStraightBytes), memory_alignment).empty()) break;
    const ByteSpan here = spans_.front().subspan(offset_);
    const size_t part = std::min(here.size(), room.size() - filled);
    std::memcpy(room.data() + filled, here.data(), part);
    filled += part;
    Skip(part);
  }
  const std::span<std::byte> blocks = room.first(RoundUp(filled, kBlockBytes));
  std::ranges::fill(blocks.subspan(filled), std::byte{0});
  return PlannedWrite{blocks, std::move(buffer)};
}

}  // namespace quire::kvserver
