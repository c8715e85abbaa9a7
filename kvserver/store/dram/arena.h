// SPDX-License-Identifier: Apache-2.0
//
// Arena: the server's DRAM for extents, reserved once (arena_memory.h) and never grown. It is cut
// into slabs. A slab serves slots of one size class and returns to the common pool when its last
// slot is freed. Finding a slot is O(1) in slabs and slots.
//
// Ownership: the caller of Allocate owns the slot until Free. The arena outlives its slots.
// Thread-safety: all methods may be called concurrently. It takes no other lock. Units: bytes.
// Errors: Allocate returns nullopt when there is no room; it never evicts.
#ifndef QUIRE_KVSERVER_STORE_DRAM_ARENA_H_
#define QUIRE_KVSERVER_STORE_DRAM_ARENA_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/memory/memory_limit.h"
#include "common/base/threads/mutex.h"
#include "kvserver/store/dram/arena_memory.h"
#include "quire/status.h"

namespace quire::kvserver {

class Arena {
 public:
  /// A place for one extent. Every allocation of a place changes its generation, so a stale slot
  /// never names another owner's bytes.
  struct Slot {
    uint32_t slab = 0;
    uint32_t index = 0;  ///< Within the slab.
    uint64_t generation = 0;
    friend bool operator==(const Slot&, const Slot&) = default;
  };
  /// Usage of one size class.
  struct ClassUse {
    uint64_t slot_bytes = 0;
    uint64_t slabs = 0;
    uint64_t slots_used = 0;
  };
  static constexpr uint64_t kMinBytes = 64 << 10;
  /// Alignment of slots: the page size, which direct I/O also requires.
  static constexpr uint64_t kSlotAlignBytes = 4096;

  /// Reserves memory. INVALID_ARGUMENT for less than kMinBytes, for more than `limit`, and for a
  /// missing NUMA node; RESOURCE_EXHAUSTED when the system refuses.
  static StatusOr<std::unique_ptr<Arena>> Reserve(const ArenaMemory::Options& options,
                                                  const MemoryLimit& limit = ReadMemoryLimit());
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Allocates a slot of at least `bytes` bytes; nullopt when there is no room.
  [[nodiscard]] std::optional<Slot> Allocate(uint64_t bytes);
  /// Frees a slot. A stale slot is ignored.
  void Free(const Slot& slot);
  /// Returns all bytes of the slot. Empty for a stale slot.
  std::span<std::byte> Bytes(const Slot& slot);
  /// Requests large pages for the slot's slab on its first use. May take milliseconds: call it
  /// outside every lock, before filling the slot. REQUIRES: a live slot.
  void Prepare(const Slot& slot);

  /// Size of the slot that serves a request of `bytes`.
  static uint64_t SlotBytes(uint64_t bytes);
  /// True when a slot of `bytes` can ever be allocated.
  bool Fits(uint64_t bytes) const { return bytes > 0 && bytes <= slab_bytes_; }
  /// Number of allocated slots of `slab`.
  uint32_t UsedSlots(uint32_t slab) const;
  uint32_t num_slabs() const { return num_slabs_; }

  /// Bytes requested at Reserve.
  uint64_t reserved_bytes() const { return bytes_; }
  /// Bytes of all allocated slots.
  uint64_t used_bytes() const;
  /// Size classes with slabs, smallest first.
  std::vector<ClassUse> Classes() const;
  /// See ArenaMemory::shared.
  std::optional<SharedMemoryView> shared_memory() const { return memory_->shared(); }
  /// See ArenaMemory::mode.
  const std::string& mode() const { return memory_->mode(); }

 private:
  struct Slab {
    uint64_t slot_bytes = 0;  // 0: in the pool
    uint32_t used = 0;
    size_t place_with_room = 0;         // Index in SizeClass::with_room while it is there.
    std::vector<uint64_t> generations;  // per slot; 0: free
    std::vector<uint32_t> free;
  };
  struct SizeClass {
    uint64_t slabs = 0;
    uint64_t slots_used = 0;
    std::vector<uint32_t> with_room;  // slabs with a free slot
  };

  Arena(std::unique_ptr<ArenaMemory> memory, uint64_t bytes, uint64_t slab_bytes);
  std::optional<uint32_t> SlabWithRoom(uint64_t slot_bytes) QUIRE_REQUIRES(mutex_);
  void TakeFromPool(uint64_t slot_bytes) QUIRE_REQUIRES(mutex_);
  void ReturnToPool(uint32_t slab) QUIRE_REQUIRES(mutex_);
  void AddWithRoom(uint32_t slab) QUIRE_REQUIRES(mutex_);
  void RemoveWithRoom(uint32_t slab) QUIRE_REQUIRES(mutex_);
  bool IsLive(const Slot& slot) const QUIRE_REQUIRES(mutex_);
  std::span<std::byte> SlabSpan(uint32_t slab) const {
    return memory_->bytes().subspan(slab * slab_bytes_, slab_bytes_);
  }

  // Constant after construction.
  const std::unique_ptr<ArenaMemory> memory_;
  const uint64_t bytes_;
  const uint64_t slab_bytes_;
  const uint32_t num_slabs_;

  std::vector<std::atomic<bool>> prepared_;  // per slab

  mutable Mutex mutex_;
  std::vector<Slab> slabs_ QUIRE_GUARDED_BY(mutex_);
  std::vector<uint32_t> pool_ QUIRE_GUARDED_BY(mutex_);             // slabs without a class
  std::map<uint64_t, SizeClass> classes_ QUIRE_GUARDED_BY(mutex_);  // by slot bytes
  uint64_t next_generation_ QUIRE_GUARDED_BY(mutex_) = 1;
  uint64_t used_bytes_ QUIRE_GUARDED_BY(mutex_) = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_DRAM_ARENA_H_
