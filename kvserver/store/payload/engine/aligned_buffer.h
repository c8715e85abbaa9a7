// SPDX-License-Identifier: Apache-2.0
//
// AlignedBuffer and its pool: 4096-aligned memory for direct I/O, kept for reuse by size class. A
// warm pool allocates nothing. Buffers of one class lie side by side on large pages, which devices
// read into faster.
//
//   QUIRE_ASSIGN_OR_RETURN(AlignedBuffer buffer, pool.Take(unit_bytes));
//   ... read into buffer.bytes() ...
//   payload.Append(std::move(buffer).ToSlice());   // returns to the pool with its last reader
//
// Ownership: a buffer belongs to its holder. A slice keeps it until the last copy of its owner is
// gone. Buffers and slices may outlive the pool; their memory is freed with the last of them.
// Thread-safety: the pool is safe for concurrent use; a buffer has one holder. No other lock is
// taken.
// Units: bytes. A buffer's memory is its size rounded up to a power of two of at least 4 KiB. The
// system gives and takes back whole slabs: 2 MiB of buffers, or one larger buffer.
// Errors: RESOURCE_EXHAUSTED when the buffers that are out would exceed the limit, all slabs would
// exceed both limits together, or memory ends.
#ifndef QUIRE_KVSERVER_STORE_PAYLOAD_ENGINE_ALIGNED_BUFFER_H_
#define QUIRE_KVSERVER_STORE_PAYLOAD_ENGINE_ALIGNED_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "quire/payload.h"
#include "quire/status.h"

namespace quire::kvserver {

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  ~AlignedBuffer();
  AlignedBuffer(AlignedBuffer&& other) noexcept { *this = std::move(other); }
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept;

  /// The requested bytes, uninitialized.
  std::span<std::byte> bytes() const { return bytes_; }
  /// Returns the bytes from `offset` on as a slice that owns the buffer. REQUIRES: inside bytes().
  Slice ToSlice(size_t offset, size_t length) &&;
  Slice ToSlice() && { return std::move(*this).ToSlice(0, bytes_.size()); }

 private:
  friend class AlignedBufferPool;
  struct Memory;
  class Slab;
  class Core;
  template <typename T>
  struct OwnerAllocator;

  AlignedBuffer(Memory* memory, size_t size);

  Memory* memory_ = nullptr;
  std::span<std::byte> bytes_;
};

class AlignedBufferPool {
 public:
  static constexpr size_t kAlignBytes = 4096;
  struct Options {
    uint64_t limit_bytes = 256u << 20;  ///< Memory of the buffers that are out.
    /// Memory kept for reuse. Slabs of which nothing is out are freed beyond it.
    uint64_t idle_bytes = 64u << 20;
  };

  explicit AlignedBufferPool(const Options& options);
  ~AlignedBufferPool();
  AlignedBufferPool(const AlignedBufferPool&) = delete;
  AlignedBufferPool& operator=(const AlignedBufferPool&) = delete;

  [[nodiscard]] StatusOr<AlignedBuffer> Take(size_t bytes);

  /// Memory of lent buffers and slices.
  uint64_t lent_bytes() const;
  /// Memory of the slabs that is not out.
  uint64_t idle_bytes() const;

 private:
  const std::shared_ptr<AlignedBuffer::Core> core_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_PAYLOAD_ENGINE_ALIGNED_BUFFER_H_
