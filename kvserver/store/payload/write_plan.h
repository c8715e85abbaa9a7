// SPDX-License-Identifier: Apache-2.0
//
// WritePlan: cuts a stream of byte spans into writes of whole blocks. Large aligned parts are
// written in place. The rest is gathered into aligned buffers. The last block is filled up with
// zeros.
//
// Spans are requested one by one, as late as possible. A span made on request is made while earlier
// writes are in flight.
//
// Ownership: the caller owns the spans and keeps them unchanged while planned writes are in use.
// Thread-safety: none. No I/O.
#ifndef QUIRE_KVSERVER_STORE_PAYLOAD_WRITE_PLAN_H_
#define QUIRE_KVSERVER_STORE_PAYLOAD_WRITE_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <utility>

#include "kvserver/store/payload/engine/aligned_buffer.h"
#include "quire/status.h"

namespace quire::kvserver {

using ByteSpan = std::span<const std::byte>;
/// Returns the next span of a stream. An error ends the stream and the write.
using SpanSource = std::function<StatusOr<ByteSpan>()>;

struct PlannedWrite {
  ByteSpan bytes;        ///< Whole blocks.
  AlignedBuffer buffer;  ///< Gathered `bytes`; empty when written in place.
};

class WritePlan {
 public:
  /// Shorter parts are gathered: one large write costs less than the copy.
  static constexpr size_t kStraightBytes = 64 << 10;

  /// Plans the writes of a stream of `bytes` bytes. REQUIRES: `source` has as many.
  WritePlan(uint64_t bytes, SpanSource source) : source_(std::move(source)), left_(bytes) {}

  /// Bytes of the stream not yet planned.
  uint64_t left() const { return left_; }
  /// Plans the next write, of at most `limit` bytes. REQUIRES: left() > 0; `limit` is a positive
  /// multiple of kBlockBytes. RESOURCE_EXHAUSTED when `pool` has no buffer; no span is consumed
  /// then. Errors of the source are in source_failure() from then on.
  StatusOr<PlannedWrite> Next(uint64_t limit, uint64_t memory_alignment, AlignedBufferPool& pool);
  const Status& source_failure() const { return source_failure_; }

 private:
  /// The next contiguous bytes in memory, about `limit` of them.
  StatusOr<ByteSpan> Contiguous(uint64_t limit);
  /// The whole blocks at the front of Contiguous, if they are worth writing in place.
  StatusOr<ByteSpan> Straight(uint64_t limit, uint64_t memory_alignment);
  /// Requests another span.
  Status Pull();
  void Skip(uint64_t bytes);
  StatusOr<PlannedWrite> Gather(AlignedBuffer buffer, uint64_t memory_alignment);

  const SpanSource source_;
  Status source_failure_;
  std::deque<ByteSpan> ahead_;  ///< Spans received and not yet planned.
  size_t offset_ = 0;           ///< Planned bytes of the first span of ahead_.
  uint64_t ahead_bytes_ = 0;    ///< Bytes of ahead_ not yet planned.
  uint64_t left_ = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_PAYLOAD_WRITE_PLAN_H_
