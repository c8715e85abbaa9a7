// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/payload/aligned_buffer.h"

#include <array>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/retry_hint.h"

namespace quire::kvserver {
namespace {

constexpr size_t kNumClasses = 32;  // 4 KiB << 31
/// Typical time of a read.
constexpr std::chrono::milliseconds kRetryBufferAfter{5};

/// The smallest class whose buffers hold `bytes`; kNumClasses when none does.
size_t ClassOf(size_t bytes) {
  if (bytes > AlignedBufferPool::kAlignBytes << (kNumClasses - 1)) return kNumClasses;
  const size_t units =
      (bytes + AlignedBufferPool::kAlignBytes - 1) / AlignedBufferPool::kAlignBytes;
  return static_cast<size_t>(std::bit_width(units > 0 ? units - 1 : 0));
}

constexpr uint64_t ClassBytes(size_t size_class) {
  return uint64_t{AlignedBufferPool::kAlignBytes} << size_class;
}

}  // namespace

/// The memory of one buffer, with room for the control block of a slice's owner.
struct AlignedBuffer::Memory {
  static constexpr size_t kControlBytes = 64;

  explicit Memory(size_t its_class)
      : data(static_cast<std::byte*>(
            std::aligned_alloc(AlignedBufferPool::kAlignBytes, ClassBytes(its_class)))),
        size_class(its_class) {}
  ~Memory() { std::free(data); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::byte* const data;
  const size_t size_class;
  std::shared_ptr<Core> core;  ///< Set while the buffer is lent.
  alignas(std::max_align_t) std::array<std::byte, kControlBytes> control;
};

class AlignedBuffer::Core : public std::enable_shared_from_this<AlignedBuffer::Core> {
 public:
  explicit Core(const AlignedBufferPool::Options& options) : options_(options) {}

  StatusOr<Memory*> Take(size_t bytes) {
    const size_t size_class = ClassOf(bytes);
    if (size_class == kNumClasses) {
      return ResourceExhausted("a read buffer of ", bytes, " bytes exceeds ",
                               ClassBytes(kNumClasses - 1));
    }
    std::unique_ptr<Memory> memory;
    {
      MutexLock lock(mutex_);
      if (ClassBytes(size_class) > options_.limit_bytes - lent_bytes_) {
        return WithRetryAfter(
            ResourceExhausted("read buffers: ", lent_bytes_, " of ", options_.limit_bytes,
                              " bytes are out, no room for ", ClassBytes(size_class),
                              " more; retry when readers are done"),
            kRetryBufferAfter);
      }
      lent_bytes_ += ClassBytes(size_class);
      if (!idle_[size_class].empty()) {
        memory = std::move(idle_[size_class].back());
        idle_[size_class].pop_back();
        idle_bytes_ -= ClassBytes(size_class);
      }
    }
    if (memory == nullptr) memory = std::make_unique<Memory>(size_class);
    if (memory->data == nullptr) {
      Forget(size_class);
      return ResourceExhausted("no memory for a read buffer of ", bytes, " bytes");
    }
    memory->core = shared_from_this();
    return memory.release();
  }

  static void Return(Memory* returned) {
    std::unique_ptr<Memory> memory(returned);
    const std::shared_ptr<Core> core = std::move(memory->core);
    core->Keep(std::move(memory));
  }

  uint64_t lent_bytes() const {
    MutexLock lock(mutex_);
    return lent_bytes_;
  }
  uint64_t idle_bytes() const {
    MutexLock lock(mutex_);
    return idle_bytes_;
  }

 private:
  void Forget(size_t size_class) {
    MutexLock lock(mutex_);
    lent_bytes_ -= ClassBytes(size_class);
  }
  /// Keeps `memory` for reuse, or leaves it to the caller to free outside the lock.
  void Keep(std::unique_ptr<Memory>&& memory) {
    const uint64_t bytes = ClassBytes(memory->size_class);
    MutexLock lock(mutex_);
    lent_bytes_ -= bytes;
    if (idle_bytes_ + bytes > options_.idle_bytes) return;
    idle_bytes_ += bytes;
    idle_[memory->size_class].push_back(std::move(memory));
  }

  const AlignedBufferPool::Options options_;
  mutable Mutex mutex_;
  std::array<std::vector<std::unique_ptr<Memory>>, kNumClasses> idle_ QUIRE_GUARDED_BY(mutex_);
  uint64_t lent_bytes_ QUIRE_GUARDED_BY(mutex_) = 0;
  uint64_t idle_bytes_ QUIRE_GUARDED_BY(mutex_) = 0;
};

/// Places the control block of a slice's owner in the buffer's own memory. Deallocation of the
/// control block, its last use, returns the buffer to the pool.
template <typename T>
struct AlignedBuffer::OwnerAllocator {
  using value_type = T;

  explicit OwnerAllocator(Memory* its_memory) : memory(its_memory) {}
  template <typename U>
  OwnerAllocator(const OwnerAllocator<U>& other) : memory(other.memory) {}  // NOLINT: rebinding

  /// Allocates one control block; it has no other use.
  T* allocate(size_t) {
    static_assert(sizeof(T) <= Memory::kControlBytes && alignof(T) <= alignof(std::max_align_t));
    return reinterpret_cast<T*>(memory->control.data());
  }
  void deallocate(T*, size_t) { Core::Return(memory); }
  template <typename U>
  bool operator==(const OwnerAllocator<U>& other) const {
    return memory == other.memory;
  }

  Memory* memory;
};

AlignedBuffer::AlignedBuffer(Memory* memory, size_t size)
    : memory_(memory), bytes_(memory->data, size) {}

AlignedBuffer::~AlignedBuffer() {
  if (memory_ != nullptr) Core::Return(memory_);
}

AlignedBuffer& AlignedBuffer::operator=(AlignedBuffer&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Slice AlignedBuffer::ToSlice(size_t offset, size_t length) && {
  const std::span<const std::byte> bytes = bytes_.subspan(offset, length);
  if (memory_ == nullptr) return {bytes, nullptr};
  Memory* const memory = std::exchange(memory_, nullptr);
  bytes_ = {};
  const auto leave_it_to_the_allocator = [](const void*) {};
  return {bytes, std::shared_ptr<const void>(memory->data, leave_it_to_the_allocator,
                                             OwnerAllocator<std::byte>(memory))};
}

AlignedBufferPool::AlignedBufferPool(const Options& options)
    : core_(std::make_shared<AlignedBuffer::Core>(options)) {}

AlignedBufferPool::~AlignedBufferPool() = default;

StatusOr<AlignedBuffer> AlignedBufferPool::Take(size_t bytes) {
  QUIRE_ASSIGN_OR_RETURN(AlignedBuffer::Memory* const memory, core_->Take(bytes));
  return AlignedBuffer(memory, bytes);
}

uint64_t AlignedBufferPool::lent_bytes() const { return core_->lent_bytes(); }
uint64_t AlignedBufferPool::idle_bytes() const { return core_->idle_bytes(); }

}  // namespace quire::kvserver
