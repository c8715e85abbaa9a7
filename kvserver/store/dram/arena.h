// SPDX-License-Identifier: Apache-2.0
//
// Arena: the server's DRAM for extents, reserved once (arena_memory.h) and never grown. It is cut
// into slabs; a slab serves slots of one size class, and goes back to the common pool when its last
// slot is freed. Finding a slot is O(1) in slabs and slots.
//
// Ownership: a slot belongs to whoever allocated it until Free. The arena outlives its slots.
// Thread-safety: all methods may be called concurrently. It takes no other lock.
// Units: bytes. Errors: Allocate answers nullopt when there is no room; it never evicts.
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

#include "common/base/memory_limit.h"
#include "common/base/mutex.h"
#include "kvserver/store/dram/arena_memory.h"
#include "quire/status.h"

namespace quire::kvserver {

class Arena {
 public:
  /// A place for one extent. The generation changes with every allocation of the same place, so a
  /// slot that was kept after Free never names somebody else's bytes.
  struct Slot {
    uint32_t slab = 0;
    uint32_t index = 0;  ///< Within the slab.
    uint64_t generation = 0;
    friend bool operator==(const Slot&, const Slot&) = default;
  };
  /// What the slots of one size take.
  struct ClassUse {
    uint64_t slot_bytes = 0;
    uint64_t slabs = 0;
    uint64_t slots_used = 0;
  };
  static constexpr uint64_t kMinBytes = 64 << 10;
  /// Slots start at multiples of this: the page size, also what direct I/O asks for.
  static constexpr uint64_t kSlotAlignBytes = 4096;

  /// Reserves memory. INVALID_ARGUMENT for less than kMinBytes, more than `limit` or a NUMA node
  /// that the machine does not have; RESOURCE_EXHAUSTED when the system refuses.
  static StatusOr<std::unique_ptr<Arena>> Reserve(const ArenaMemory::Options& options,
                                                  const MemoryLimit& limit = ReadMemoryLimit());
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// A slot of at least `bytes` bytes; nullopt when no slab has or can give one.
  [[nodiscard]] std::optional<Slot> Allocate(uint64_t bytes);
  /// Returns a slot; a stale one is ignored.
  void Free(const Slot& slot);
  /// The slot's bytes, all of its size; empty for a stale slot.
  std::span<std::byte> Bytes(const Slot& slot);
  /// Gets large pages under the slot's slab when it is used for the first time. It may take
  /// milliseconds: call it outside every lock, before the slot is filled. REQUIRES: a live slot.
  void Prepare(const Slot& slot);

  /// Bytes of the slot that a request of `bytes` is given.
  static uint64_t SlotBytes(uint64_t bytes);
  /// Whether a slot of `bytes` can ever be allocated.
  bool Fits(uint64_t bytes) const { return bytes > 0 && bytes <= slab_bytes_; }
  /// Slots of `slab` that are allocated now.
  uint32_t UsedSlots(uint32_t slab) const;
  uint32_t num_slabs() const { return num_slabs_; }

  /// What was asked for at the start.
  uint64_t reserved_bytes() const { return bytes_; }
  /// Bytes of all allocated slots.
  uint64_t used_bytes() const;
  /// The size classes that have slabs now, smallest first.
  std::vector<ClassUse> Classes() const;
  /// See ArenaMemory::shared.
  std::optional<SharedMemoryView> shared_memory() const { return memory_->shared(); }
  /// See ArenaMemory::mode.
  const std::string& mode() const { return memory_->mode(); }

 private:
  struct Slab {
    uint64_t slot_bytes = 0;  // 0: in the pool
    uint32_t used = 0;
    size_t place_with_room = 0;         // Its place in SizeClass::with_room while it is there.
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
