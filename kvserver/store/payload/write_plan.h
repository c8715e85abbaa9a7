// SPDX-License-Identifier: Apache-2.0
//
// WritePlan: cuts a stream of byte spans, as they lie in a caller's memory, into writes of whole
// blocks. Large aligned parts are written straight from where they lie; the rest is gathered into
// aligned buffers, and what follows the last byte of the stream in its block is zero.
//
// Ownership: the spans are the caller's and stay as they are while planned writes are in use.
// Thread-safety: none. No I/O.
#ifndef QUIRE_KVSERVER_STORE_PAYLOAD_WRITE_PLAN_H_
#define QUIRE_KVSERVER_STORE_PAYLOAD_WRITE_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/status.h"
#include "kvserver/store/payload/aligned_buffer.h"

namespace quire::kvserver {

using ByteSpan = std::span<const std::byte>;

struct PlannedWrite {
  ByteSpan bytes;        ///< Whole blocks.
  AlignedBuffer buffer;  ///< Holds `bytes` when they were gathered.
};

class WritePlan {
 public:
  /// Parts shorter than this are gathered: one large write costs less than copying saves.
  static constexpr size_t kStraightBytes = 64 << 10;

  explicit WritePlan(std::span<const ByteSpan> spans);

  /// Bytes of the stream that Next has not covered yet.
  uint64_t left() const { return left_; }
  /// The next write, of at most `limit` bytes. REQUIRES: left() > 0; `limit` is a positive multiple
  /// of kBlockBytes. RESOURCE_EXHAUSTED when `pool` gives no buffer; then nothing has moved.
  StatusOr<PlannedWrite> Next(uint64_t limit, uint64_t memory_alignment, AlignedBufferPool& pool);

 private:
  /// What lies contiguously in memory from here on, about `limit` bytes of it.
  ByteSpan Contiguous(uint64_t limit) const;
  /// The whole blocks at the front of `ahead`, when it pays to write them as they lie.
  ByteSpan Straight(ByteSpan ahead, uint64_t memory_alignment) const;
  void Skip(uint64_t bytes);
  PlannedWrite Gather(AlignedBuffer buffer, uint64_t memory_alignment);

  std::span<const ByteSpan> spans_;
  size_t offset_ = 0;  ///< In the first of spans_.
  uint64_t left_ = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_PAYLOAD_WRITE_PLAN_H_
