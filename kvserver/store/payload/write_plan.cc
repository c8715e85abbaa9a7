// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/payload/write_plan.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kvserver/store/payload/volume/location.h"

namespace quire::kvserver {

Status WritePlan::Pull() {
  StatusOr<ByteSpan> next = source_();
  if (next.ok() && (next->empty() || next->size() > left_ - ahead_bytes_)) {
    next = Internal("a span of ", next->size(), " bytes where ", left_ - ahead_bytes_,
                    " bytes are left to write");
  }
  if (!next.ok()) {
    source_failure_ = next.status();
    return source_failure_;
  }
  ahead_bytes_ += next->size();
  ahead_.push_back(*next);
  return OkStatus();
}

StatusOr<ByteSpan> WritePlan::Contiguous(uint64_t limit) {
  if (ahead_.empty()) QUIRE_RETURN_IF_ERROR(Pull());
  ByteSpan run = ahead_.front().subspan(offset_);
  for (size_t next = 1; run.size() < limit; ++next) {
    if (next == ahead_.size()) {
      if (ahead_bytes_ == left_) break;
      QUIRE_RETURN_IF_ERROR(Pull());
    }
    if (ahead_[next].data() != run.data() + run.size()) break;
    run = {run.data(), run.size() + ahead_[next].size()};
  }
  return run.first(std::min<uint64_t>(run.size(), limit));
}

StatusOr<ByteSpan> WritePlan::Straight(uint64_t limit, uint64_t memory_alignment) {
  QUIRE_ASSIGN_OR_RETURN(const ByteSpan run, Contiguous(limit));
  if (reinterpret_cast<uintptr_t>(run.data()) % memory_alignment != 0) return ByteSpan();
  const uint64_t bytes = RoundDown(run.size(), kBlockBytes);
  return bytes >= std::min<uint64_t>(kStraightBytes, left_) ? run.first(bytes) : ByteSpan();
}

void WritePlan::Skip(uint64_t bytes) {
  left_ -= bytes;
  ahead_bytes_ -= bytes;
  offset_ += bytes;
  while (!ahead_.empty() && offset_ >= ahead_.front().size()) {
    offset_ -= ahead_.front().size();
    ahead_.pop_front();
  }
}

StatusOr<PlannedWrite> WritePlan::Next(uint64_t limit, uint64_t memory_alignment,
                                       AlignedBufferPool& pool) {
  QUIRE_ASSIGN_OR_RETURN(const ByteSpan bytes, Straight(limit, memory_alignment));
  if (!bytes.empty()) {
    Skip(bytes.size());
    return PlannedWrite{bytes, {}};
  }
  const uint64_t size = limit < left_ ? limit : RoundUp(left_, kBlockBytes);
  QUIRE_ASSIGN_OR_RETURN(AlignedBuffer buffer, pool.Take(size));
  return Gather(std::move(buffer), memory_alignment);
}

StatusOr<PlannedWrite> WritePlan::Gather(AlignedBuffer buffer, uint64_t memory_alignment) {
  const std::span<std::byte> room = buffer.bytes();
  size_t filled = 0;
  while (filled < room.size() && left_ > 0) {
    if (filled > 0 && filled % kBlockBytes == 0) {
      QUIRE_ASSIGN_OR_RETURN(const ByteSpan rest, Straight(kStraightBytes, memory_alignment));
      if (!rest.empty()) break;
    }
    if (ahead_.empty()) QUIRE_RETURN_IF_ERROR(Pull());
    const ByteSpan here = ahead_.front().subspan(offset_);
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
