// SPDX-License-Identifier: Apache-2.0
//
// HostTier: units of sealed pages that a worker keeps in its own memory. Recalls fill it; a page
// that is selected again is placed from here. One tier serves all sequences of a worker; those that
// continue the same document share its units.
//
// Bounded: the units in the tier are `capacity_bytes` at most; over that the one goes that was not
// put, got or touched for longest (LRU). A unit that somebody has got stays until he lets it go,
// and counts no more once it has left the tier. A unit's name identifies its bytes, so nothing is
// ever stale. Each unit carries its checksum. A reader compares it before placing the unit, and
// drops the unit when it differs.
//
// HostPages: the pages of one sequence in a tier, or of none.
//
// Thread-safety: HostTier's methods may be called concurrently; HostPages is an immutable value.
#ifndef QUIRE_GPUWORKER_CACHE_HOST_TIER_H_
#define QUIRE_GPUWORKER_CACHE_HOST_TIER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <unordered_map>

#include "common/base/threads/mutex.h"
#include "gpuworker/cache/document_pages.h"
#include "quire/key.h"
#include "quire/layout.h"
#include "quire/payload.h"
#include "quire/unit_codec.h"

namespace quire::worker {

/// Name of a unit in a sealed chain or in an open context. Values recalled without their keys have
/// a name and a checksum of their own.
struct HostUnitName {
  SegmentKey chain = {};     ///< Tip of the chain; zero for a page of an open context.
  uint64_t incarnation = 0;  ///< Incarnation of the chain, as in DocumentPages.
  uint64_t context = 0;      ///< The open context; 0 for a page of a chain.
  uint32_t page = 0;
  uint32_t layer = 0;
  uint32_t head = 0;
  UnitPart part = UnitPart::kWhole;  ///< Part of the unit that is kept.
  friend bool operator==(const HostUnitName&, const HostUnitName&) = default;
};

/// A unit's bytes, as they came.
struct HostUnit {
  Slice bytes;
  uint32_t crc32c = 0;
  UnitCodec codec = UnitCodec::kRaw;
};

class HostTier {
 public:
  explicit HostTier(uint64_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}
  HostTier(const HostTier&) = delete;
  HostTier& operator=(const HostTier&) = delete;

  struct Stats {
    uint64_t hits = 0;
    uint64_t misses = 0;
    uint64_t evictions = 0;
    uint64_t damaged = 0;  ///< Units that were dropped because they did not match their checksums.
    uint64_t units = 0;    ///< In the tier now.
    uint64_t bytes = 0;    ///< Payload bytes of those units.
  };
  Stats stats() const QUIRE_EXCLUDES(mutex_);

  /// Returns true if the unit is still valid. Called after the copy.
  using Validity = std::function<bool()>;
  /// Keeps a copy of `unit`, which is in `codec`. Does nothing if it is here already, is larger
  /// than the tier, or became invalid during the copy. `is_valid` may be empty.
  void Put(const HostUnitName& name, const Payload& unit, uint32_t crc32c,
           const Validity& is_valid = {}, UnitCodec codec = UnitCodec::kRaw) QUIRE_EXCLUDES(mutex_);
  /// The unit, whose bytes never change; nullopt when it is not here.
  std::optional<HostUnit> Get(const HostUnitName& name) QUIRE_EXCLUDES(mutex_);
  /// Makes the unit, if it is here, the one that was used last.
  void Touch(const HostUnitName& name) QUIRE_EXCLUDES(mutex_);
  /// Drops the unit, if it is here, after the caller found a checksum mismatch. The store has
  /// another copy.
  void DropDamaged(const HostUnitName& name) QUIRE_EXCLUDES(mutex_);

 private:
  struct Hash {
    size_t operator()(const HostUnitName& name) const;
  };
  struct Kept {
    HostUnitName name;
    HostUnit unit;
  };
  using Order = std::list<Kept>;
  /// Moves the unit to the end; nullptr when it is not here.
  const HostUnit* Use(const HostUnitName& name) QUIRE_REQUIRES(mutex_);

  const uint64_t capacity_bytes_;
  mutable Mutex mutex_;
  Order order_ QUIRE_GUARDED_BY(mutex_);  ///< The one used last is last.
  std::unordered_map<HostUnitName, Order::iterator, Hash> units_ QUIRE_GUARDED_BY(mutex_);
  Stats stats_ QUIRE_GUARDED_BY(mutex_);
};

class HostPages {
 public:
  /// A unit with its place.
  struct Unit {
    uint32_t head = 0;
    uint32_t page = 0;
    Slice bytes;
    uint32_t crc32c = 0;
    UnitCodec codec = UnitCodec::kRaw;
  };

  /// Keeps nothing.
  HostPages() = default;
  /// The first pages are those of `document`, later ones are of open context `context`; `part` of
  /// their units is kept. `tier`, which may be null, outlives this.
  HostPages(HostTier* tier, const DocumentPages& document, uint64_t context,
            UnitPart part = UnitPart::kWhole)
      : tier_(tier), document_(document), context_(context), part_(part) {}

  bool enabled() const { return tier_ != nullptr; }
  // The rest as HostTier; only when enabled.
  void Put(uint32_t layer, uint32_t head, uint32_t page, const Payload& unit, uint32_t crc32c,
           const HostTier::Validity& is_valid = {}, UnitCodec codec = UnitCodec::kRaw) const {
    tier_->Put(NameOf(layer, head, page), unit, crc32c, is_valid, codec);
  }
  std::optional<Unit> Get(uint32_t layer, uint32_t head, uint32_t page) const;
  void Touch(uint32_t layer, uint32_t head, uint32_t page) const {
    tier_->Touch(NameOf(layer, head, page));
  }
  void DropDamaged(uint32_t layer, uint32_t head, uint32_t page) const {
    tier_->DropDamaged(NameOf(layer, head, page));
  }

 private:
  HostUnitName NameOf(uint32_t layer, uint32_t head, uint32_t page) const;

  HostTier* tier_ = nullptr;
  DocumentPages document_;
  uint64_t context_ = 0;
  UnitPart part_ = UnitPart::kWhole;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CACHE_HOST_TIER_H_
