// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/payload/engine/aligned_buffer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <iterator>
#include <list>
#include <utility>
#include <vector>

#include "common/base/memory/large_pages.h"
#include "common/base/retry_hint.h"
#include "common/base/threads/mutex.h"

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

/// One buffer and the room for the control block of a slice's owner.
struct AlignedBuffer::Memory {
  static constexpr size_t kControlBytes = 64;

  std::byte* data = nullptr;
  Slab* slab = nullptr;
  std::shared_ptr<Core> core;  ///< Set while the buffer is out.
  alignas(std::max_align_t) std::array<std::byte, kControlBytes> control;
};

/// Buffers of one size class, side by side on large pages. Thread-safety: none.
class AlignedBuffer::Slab {
 public:
  static uint64_t BytesOf(size_t its_class) {
    return std::max(LargePages::kPageBytes, ClassBytes(its_class));
  }

  explicit Slab(size_t its_class)
      : size_class(its_class),
        pages_(BytesOf(its_class)),
        buffers_(pages_.bytes().size() / ClassBytes(its_class)) {
    for (size_t i = 0; i < buffers_.size(); ++i) {
      buffers_[i].data = pages_.bytes().data() + i * ClassBytes(size_class);
      buffers_[i].slab = this;
      idle_.push_back(&buffers_[i]);
    }
  }

  /// False when the system had no memory.
  bool exists() const { return !buffers_.empty(); }
  bool rests() const { return idle_.size() == buffers_.size(); }
  bool is_full() const { return idle_.empty(); }

  /// REQUIRES: not full.
  Memory* Lend() {
    Memory* const memory = idle_.back();
    idle_.pop_back();
    return memory;
  }
  void Return(Memory* memory) { idle_.push_back(memory); }

  const size_t size_class;
  std::list<Slab>::iterator place;  ///< Itself, in the list that it is in.

 private:
  const LargePages pages_;
  std::vector<Memory> buffers_;
  std::vector<Memory*> idle_;
};

class AlignedBuffer::Core : public std::enable_shared_from_this<AlignedBuffer::Core> {
 public:
  explicit Core(const AlignedBufferPool::Options& options)
      : options_(options),
        most_mapped_bytes_(InPages(options.limit_bytes) + InPages(options.idle_bytes)) {}

  StatusOr<Memory*> Take(size_t bytes) {
    const size_t size_class = ClassOf(bytes);
    if (size_class == kNumClasses) {
      return ResourceExhausted("a read buffer of ", bytes, " bytes exceeds ",
                               ClassBytes(kNumClasses - 1));
    }
    Slabs released;  // Unmapped when the lock is free.
    MutexLock lock(mutex_);
    if (ClassBytes(size_class) > options_.limit_bytes - lent_bytes_) return NoRoom(size_class);
    Slab* slab = FindIdle(size_class);
    if (slab == nullptr) {
      if (!MakeRoom(Slab::BytesOf(size_class), &released)) return NoRoom(size_class);
      slab = Map(size_class);
    }
    if (slab == nullptr) {
      return ResourceExhausted("no memory for a read buffer of ", bytes, " bytes");
    }
    return Lend(*slab);
  }

  static void Return(Memory* memory) {
    const std::shared_ptr<Core> core = std::move(memory->core);
    core->Keep(memory);
  }

  uint64_t lent_bytes() const {
    MutexLock lock(mutex_);
    return lent_bytes_;
  }
  uint64_t idle_bytes() const {
    MutexLock lock(mutex_);
    return mapped_bytes_ - lent_bytes_;
  }

 private:
  using Slabs = std::list<Slab>;
  /// The slabs of one size class, by how much of each is out.
  struct Shelf {
    Slabs resting, open, full;
    Slabs& ListOf(const Slab& slab) {
      return slab.rests() ? resting : slab.is_full() ? full : open;
    }
  };

  static uint64_t InPages(uint64_t bytes) {
    return (bytes + LargePages::kPageBytes - 1) / LargePages::kPageBytes * LargePages::kPageBytes;
  }
  Status NoRoom(size_t size_class) const QUIRE_REQUIRES(mutex_) {
    return WithRetryAfter(
        ResourceExhausted("read buffers: ", lent_bytes_, " of ", options_.limit_bytes,
                          " bytes are out, no room for ", ClassBytes(size_class),
                          " more; retry when readers are done"),
        kRetryBufferAfter);
  }

  /// Null when all slabs of the class are full.
  Slab* FindIdle(size_t size_class) QUIRE_REQUIRES(mutex_) {
    Shelf& shelf = shelves_[size_class];
    if (!shelf.open.empty()) return &shelf.open.front();
    return shelf.resting.empty() ? nullptr : &shelf.resting.front();
  }
  /// Null when the system has no memory.
  Slab* Map(size_t size_class) QUIRE_REQUIRES(mutex_) {
    Slabs& resting = shelves_[size_class].resting;
    Slab& slab = resting.emplace_front(size_class);
    if (!slab.exists()) {
      resting.pop_front();
      return nullptr;
    }
    slab.place = resting.begin();
    mapped_bytes_ += Slab::BytesOf(size_class);
    return &slab;
  }
  Memory* Lend(Slab& slab) QUIRE_REQUIRES(mutex_) {
    Slabs& before = shelves_[slab.size_class].ListOf(slab);
    Memory* const memory = slab.Lend();
    Shelve(slab, before);
    lent_bytes_ += ClassBytes(slab.size_class);
    memory->core = shared_from_this();
    return memory;
  }
  void Keep(Memory* memory) {
    Slabs released;  // Unmapped when the lock is free.
    MutexLock lock(mutex_);
    Slab& slab = *memory->slab;
    Slabs& before = shelves_[slab.size_class].ListOf(slab);
    slab.Return(memory);
    Shelve(slab, before);
    lent_bytes_ -= ClassBytes(slab.size_class);
    while (mapped_bytes_ - lent_bytes_ > options_.idle_bytes && ReleaseOne(&released)) continue;
  }
  /// Moves a slab that has changed to the list that it belongs to now.
  void Shelve(Slab& slab, Slabs& before) QUIRE_REQUIRES(mutex_) {
    Slabs& after = shelves_[slab.size_class].ListOf(slab);
    after.splice(after.begin(), before, slab.place);
  }

  /// Releases idle slabs until `bytes` more can be mapped. False when they do not suffice.
  bool MakeRoom(uint64_t bytes, Slabs* released) QUIRE_REQUIRES(mutex_) {
    while (mapped_bytes_ + bytes > most_mapped_bytes_) {
      if (!ReleaseOne(released)) return false;
    }
    return true;
  }
  /// False when no slab rests.
  bool ReleaseOne(Slabs* released) QUIRE_REQUIRES(mutex_) {
    for (Shelf& shelf : shelves_) {
      if (shelf.resting.empty()) continue;
      mapped_bytes_ -= Slab::BytesOf(shelf.resting.back().size_class);
      released->splice(released->end(), shelf.resting, std::prev(shelf.resting.end()));
      return true;
    }
    return false;
  }

  const AlignedBufferPool::Options options_;
  const uint64_t most_mapped_bytes_;
  mutable Mutex mutex_;
  std::array<Shelf, kNumClasses> shelves_ QUIRE_GUARDED_BY(mutex_);
  uint64_t mapped_bytes_ QUIRE_GUARDED_BY(mutex_) = 0;
  uint64_t lent_bytes_ QUIRE_GUARDED_BY(mutex_) = 0;
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
    static_assert(sizeof(T) <= Memory::kControlBytes);
    static_assert(alignof(T) <= alignof(Memory));
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
