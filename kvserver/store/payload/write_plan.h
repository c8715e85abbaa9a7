// SPDX-License-Identifier: Apache-2.0
//
// WritePlan: cuts a stream of byte spans, as they lie in memory, into writes of whole blocks. Large
// aligned parts are written straight from where they lie; the rest is gathered into aligned
// buffers, and what follows the last byte of the stream in its block is zero.
//
// The spans are asked for one after the other, as late as possible: a span that is made when it is
// asked for is made while the writes before it are in flight.
//
// Ownership: the spans are the caller's and stay as they are while planned writes are in use.
// Thread-safety: none. No I/O.
#ifndef QUIRE_KVSERVER_STORE_PAYLOAD_WRITE_PLAN_H_
#define QUIRE_KVSERVER_STORE_PAYLOAD_WRITE_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <utility>

#include "kvserver/store/payload/aligned_buffer.h"
#include "quire/status.h"

namespace quire::kvserver {

using ByteSpan = std::span<const std::byte>;
/// The next span of a stream. An error ends the stream, and whatever is made of it.
using SpanSource = std::function<StatusOr<ByteSpan>()>;

struct PlannedWrite {
  ByteSpan bytes;        ///< Whole blocks.
  AlignedBuffer buffer;  ///< Holds `bytes` when they were gathered.
};

class WritePlan {
 public:
  /// Parts shorter than this are gathered: one large write costs less than copying saves.
  static constexpr size_t kStraightBytes = 64 << 10;

  /// Plans the writes of a stream of `bytes` bytes. REQUIRES: `source` gives as many.
  WritePlan(uint64_t bytes, SpanSource source) : source_(std::move(source)), left_(bytes) {}

  /// Bytes of the stream that Next has not covered yet.
  uint64_t left() const { return left_; }
  /// The next write, of at most `limit` bytes. REQUIRES: left() > 0; `limit` is a positive multiple
  /// of kBlockBytes. RESOURCE_EXHAUSTED when `pool` gives no buffer; then nothing has moved. Errors
  /// of the source are in source_failure() from then on.
  StatusOr<PlannedWrite> Next(uint64_t limit, uint64_t memory_alignment, AlignedBufferPool& pool);
  const Status& source_failure() const { return source_failure_; }

 private:
  /// Bytes that lie contiguously in memory from here on, about `limit` of them.
  StatusOr<ByteSpan> Contiguous(uint64_t limit);
  /// The whole blocks at the front of it, when it pays to write them as they lie.
  StatusOr<ByteSpan> Straight(uint64_t limit, uint64_t memory_alignment);
  /// Asks for another span.
  Status Pull();
  void Skip(uint64_t bytes);
  StatusOr<PlannedWrite> Gather(AlignedBuffer buffer, uint64_t memory_alignment);

  const SpanSource source_;
  Status source_failure_;
  std::deque<ByteSpan> ahead_;  ///< Asked for and not covered.
  size_t offset_ = 0;           ///< In the first of ahead_.
  uint64_t ahead_bytes_ = 0;    ///< Of ahead_, without what is before offset_.
  uint64_t left_ = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_PAYLOAD_WRITE_PLAN_H_
