// SPDX-License-Identifier: Apache-2.0
//
// Arena: the server's DRAM for extents, reserved once (memfd, so that it can be shared with workers
// on the same host) and never grown. It is cut into slabs; a slab serves slots of one size, and
// goes back to the common pool when its last slot is freed.
//
// Ownership: a slot belongs to whoever allocated it until Free. The arena outlives its slots.
// Thread-safety: all methods may be called concurrently. It takes no other lock.
// Units: bytes. Errors: Allocate answers nullopt when there is no room; it never evicts.
#ifndef QUIRE_KVSERVER_STORE_ARENA_H_
#define QUIRE_KVSERVER_STORE_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/status.h"

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
  static constexpr uint64_t kMinBytes = 64 << 10;
  /// Slots start at multiples of this: the page size, also what direct I/O asks for.
  static constexpr uint64_t kSlotAlignBytes = 4096;

  /// Reserves `bytes`. INVALID_ARGUMENT below kMinBytes or above what the machine has,
  /// RESOURCE_EXHAUSTED when the system refuses.
  static StatusOr<std::unique_ptr<Arena>> Reserve(uint64_t bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// A slot of at least `bytes` bytes; nullopt when no slab has or can give one.
  [[nodiscard]] std::optional<Slot> Allocate(uint64_t bytes);
  /// Returns a slot; a stale one is ignored.
  void Free(const Slot& slot);
  /// The slot's bytes, all of its size; empty for a stale slot.
  std::span<std::byte> Bytes(const Slot& slot);

  /// Whether two requests are served by slots of one size, that is, by the same slabs.
  bool SameClass(uint64_t a_bytes, uint64_t b_bytes) const;
  /// Whether a slot of `bytes` can ever be allocated.
  bool Fits(uint64_t bytes) const;
  /// Slots of `slab` that are allocated now.
  uint32_t UsedSlots(uint32_t slab) const;
  uint32_t num_slabs() const { return static_cast<uint32_t>(num_slabs_); }

  uint64_t reserved_bytes() const { return bytes_; }
  /// Bytes of all allocated slots.
  uint64_t used_bytes() const;

 private:
  struct Slab {
    uint64_t slot_bytes = 0;  // 0: in the pool
    uint32_t used = 0;
    std::vector<uint64_t> generations;  // per slot; 0: free
    std::vector<uint32_t> free;
  };

  Arena(std::byte* base, uint64_t bytes, uint64_t slab_bytes, int fd);
  std::optional<uint32_t> SlabWithRoom(uint64_t slot_bytes) QUIRE_REQUIRES(mutex_);
  bool IsLive(const Slot& slot) const QUIRE_REQUIRES(mutex_);

  // Constant after construction.
  std::byte* const base_;
  const uint64_t bytes_;
  const uint64_t slab_bytes_;
  const uint64_t num_slabs_;
  const int fd_;

  mutable Mutex mutex_;
  std::vector<Slab> slabs_ QUIRE_GUARDED_BY(mutex_);
  uint64_t next_generation_ QUIRE_GUARDED_BY(mutex_) = 1;
  uint64_t used_bytes_ QUIRE_GUARDED_BY(mutex_) = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_ARENA_H_
