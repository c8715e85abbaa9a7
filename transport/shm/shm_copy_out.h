// SPDX-License-Identifier: Apache-2.0
//
// ShmCopyOut: shared memory of one end of a connection, for copies of payload that lies outside the
// memory that the other end may map. Allocation is first fit from the start, so a client that
// releases its blocks touches little of the memory. The system backs only the touched part.
//
// Ownership: a block frees its place when it is destroyed, and keeps the memory alive.
// Thread-safety: all methods may be called concurrently.
#ifndef QUIRE_TRANSPORT_SHM_SHM_COPY_OUT_H_
#define QUIRE_TRANSPORT_SHM_SHM_COPY_OUT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "common/base/memory/shared_memory.h"
#include "common/base/threads/mutex.h"

namespace quire {

class ShmCopyOut : public std::enable_shared_from_this<ShmCopyOut> {
 public:
  static constexpr uint64_t kAlignBytes = 64;  ///< Alignment of blocks.

  class Block {
   public:
    Block() = default;
    Block(Block&& other) noexcept;
    Block& operator=(Block&& other) noexcept;
    ~Block();

    bool empty() const { return bytes_.empty(); }
    std::span<std::byte> bytes() const { return bytes_; }
    uint64_t offset() const { return offset_; }

   private:
    friend class ShmCopyOut;
    std::shared_ptr<ShmCopyOut> memory_;
    std::span<std::byte> bytes_;
    uint64_t offset_ = 0;
  };

  explicit ShmCopyOut(uint64_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}

  /// Allocates a block. The first one reserves the memory. Returns an empty block when there is no
  /// room, or when the memory cannot be reserved. REQUIRES: bytes > 0.
  Block Allocate(uint64_t bytes);
  /// The memory of the blocks. REQUIRES: Allocate has returned a block.
  SharedMemoryView view() const;

 private:
  bool Reserve() QUIRE_REQUIRES(mutex_);
  void Free(uint64_t offset, uint64_t bytes);

  const uint64_t capacity_bytes_;
  mutable Mutex mutex_;
  /// Set after the first attempt, also when it failed.
  bool reserved_ QUIRE_GUARDED_BY(mutex_) = false;
  std::unique_ptr<SharedMemory> memory_ QUIRE_GUARDED_BY(mutex_);
  // Offset to size in bytes; no two adjoin.
  std::map<uint64_t, uint64_t> free_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_SHM_SHM_COPY_OUT_H_
