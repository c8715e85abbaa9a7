// SPDX-License-Identifier: Apache-2.0
//
// EvictionPolicy: the order in which extents leave DRAM. Bookkeeping only: no I/O, no clock, no
// locks. Every call is O(log n) or better in the tracked extents. Victim asks about few already
// refused extents, so extents held for long do not slow it down. Memory is bounded by the tracked
// extents. Thread-safety: none; the DRAM tier calls it under its own lock. Every implementation
// passes testing/eviction_conformance.h.
#ifndef QUIRE_KVSERVER_STORE_POLICY_EVICTION_EVICTION_POLICY_H_
#define QUIRE_KVSERVER_STORE_POLICY_EVICTION_EVICTION_POLICY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "kvserver/store/unit.h"

namespace quire::kvserver {

/// A new extent in DRAM. Each policy uses the fields that its order needs.
struct NewExtent {
  ExtentId id;
  uint64_t bytes = 0;
  std::string_view tenant = {};  ///< Valid during the call.
  /// The preceding segment of the chain, without which this one is useless. kRootKey when there is
  /// none or it is unknown. It need not be tracked.
  SegmentKey parent = kRootKey;
  /// Measured or estimated cost of computing one token of it; 0 when unknown.
  double seconds_per_token = 0;

  ExtentId parent_id() const { return {parent, id.layer}; }
};

class EvictionPolicy {
 public:
  /// True when an extent may leave now: it is not held, and its room is useful.
  using Evictable = std::function<bool(const ExtentId&)>;

  EvictionPolicy() = default;
  virtual ~EvictionPolicy() = default;
  EvictionPolicy(const EvictionPolicy&) = delete;
  EvictionPolicy& operator=(const EvictionPolicy&) = delete;

  /// Starts to track an extent. REQUIRES: it is not tracked.
  virtual void Insert(const NewExtent& extent) = 0;

  /// Records a use of the extent. Ignores an untracked one.
  virtual void Touch(const ExtentId& id) = 0;

  /// Stops tracking an extent that made room for another. The policy may remember it. Ignores an
  /// untracked one.
  virtual void Evict(const ExtentId& id) = 0;

  /// Stops tracking an extent that was deleted or replaced. Ignores an untracked one.
  virtual void Remove(const ExtentId& id) = 0;

  /// Returns the first extent, in eviction order, that `evictable` accepts; nullopt when it accepts
  /// none. The extent stays tracked until Evict or Remove.
  ///
  /// A refused extent steps aside as in use. It is offered again some time later, or when no other
  /// extent can leave. Held extents therefore do not slow a call down. Only a call without a result
  /// asks about all of them.
  virtual std::optional<ExtentId> Victim(const Evictable& evictable) = 0;

  /// Number of tracked extents.
  virtual size_t size() const = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_POLICY_EVICTION_EVICTION_POLICY_H_
