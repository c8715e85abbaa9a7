// SPDX-License-Identifier: Apache-2.0
//
// BufferPool: reuses large buffers, so that receiving does not touch fresh pages.
// Ownership: a buffer returns to its pool when its last owner drops it. It is freed when the pool
// is gone or full.
// Thread-safety: all methods from any thread.
#ifndef QUIRE_TRANSPORT_UCX_FRAMES_BUFFER_POOL_H_
#define QUIRE_TRANSPORT_UCX_FRAMES_BUFFER_POOL_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/threads/mutex.h"

namespace quire {

class BufferPool {
 public:
  /// Keeps at most `max_bytes` of unused buffers.
  explicit BufferPool(uint64_t max_bytes) : max_bytes_(max_bytes) {}

  /// A buffer of at least `bytes`, not cleared.
  static std::shared_ptr<std::byte[]> Take(const std::shared_ptr<BufferPool>& pool, size_t bytes) {
    const size_t size = SizeFor(bytes);
    Buffer buffer = pool->TakeFree(size);
    if (buffer == nullptr) buffer = std::make_unique_for_overwrite<std::byte[]>(size);
    std::byte* const data = buffer.release();
    return {data, [size, home = std::weak_ptr<BufferPool>(pool)](std::byte* done) {
              Buffer back(done);
              if (const auto alive = home.lock()) alive->GiveBack(size, std::move(back));
            }};
  }

 private:
  using Buffer = std::unique_ptr<std::byte[]>;
  static constexpr size_t kSmallest = 256;
  static constexpr size_t kSizesPerDoubling = 8;

  /// Size of a buffer for `bytes`. Few sizes exist, and little of a large buffer is unused.
  static size_t SizeFor(size_t bytes) {
    if (bytes <= kSmallest) return kSmallest;
    const size_t step = std::bit_floor(bytes) / kSizesPerDoubling;
    return (bytes + step - 1) / step * step;
  }

  Buffer TakeFree(size_t size) QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    std::vector<Buffer>& free = free_[size];
    if (free.empty()) return nullptr;
    Buffer buffer = std::move(free.back());
    free.pop_back();
    free_bytes_ -= size;
    return buffer;
  }
  void GiveBack(size_t size, Buffer buffer) QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (free_bytes_ + size > max_bytes_) return;
    free_bytes_ += size;
    free_[size].push_back(std::move(buffer));
  }

  const uint64_t max_bytes_;
  Mutex mutex_;
  uint64_t free_bytes_ QUIRE_GUARDED_BY(mutex_) = 0;
  std::map<size_t, std::vector<Buffer>> free_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_UCX_FRAMES_BUFFER_POOL_H_
