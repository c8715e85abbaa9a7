// SPDX-License-Identifier: Apache-2.0
//
// EvictionPolicy: which extent leaves DRAM first. Bookkeeping only: no I/O, no clock, no locks.
// Every call is O(log n) or better in the extents tracked; Victim asks about a few extents at most
// beyond those that were never asked about, so that extents which readers hold for long do not make
// it slow (see Victim). Memory is bounded by the extents tracked.
// Thread-safety: none; the DRAM tier calls it under its own lock.
// testing/eviction_conformance.h is the test suite that every implementation passes.
#ifndef QUIRE_KVSERVER_STORE_POLICY_EVICTION_POLICY_H_
#define QUIRE_KVSERVER_STORE_POLICY_EVICTION_POLICY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "kvserver/store/unit.h"

namespace quire::kvserver {

/// An extent that came to DRAM, and what is known of it. A policy uses what its order needs.
struct NewExtent {
  ExtentId id;
  uint64_t bytes = 0;
  /// The segment before this one in its chain, without which this one is of no use; kRootKey when
  /// there is none or it is not known. It need not be tracked.
  SegmentKey parent = kRootKey;
  /// What it cost to compute one token of it, measured or estimated when it was missing; 0 when
  /// that is not known.
  double seconds_per_token = 0;

  ExtentId parent_id() const { return {parent, id.layer}; }
};

class EvictionPolicy {
 public:
  /// Whether an extent may leave now: no reader holds it, and its room is of use.
  using Evictable = std::function<bool(const ExtentId&)>;

  EvictionPolicy() = default;
  virtual ~EvictionPolicy() = default;
  EvictionPolicy(const EvictionPolicy&) = delete;
  EvictionPolicy& operator=(const EvictionPolicy&) = delete;

  /// Starts to track an extent. REQUIRES: it is not tracked.
  virtual void Insert(const NewExtent& extent) = 0;

  /// A reader used the extent. Nothing happens when it is not tracked.
  virtual void Touch(const ExtentId& id) = 0;

  /// The extent made room for another: the policy may remember it. Nothing happens when it is not
  /// tracked.
  virtual void Evict(const ExtentId& id) = 0;

  /// The extent is gone for another reason, deleted or replaced. Nothing happens when it is not
  /// tracked.
  virtual void Remove(const ExtentId& id) = 0;

  /// The first extent, in the policy's order of eviction, that `evictable` agrees to; nullopt when
  /// it agrees to none. The extent stays tracked until Evict or Remove.
  ///
  /// An extent that was refused steps aside, as one that is in use, and is asked about again a
  /// while later, or when nothing else can leave. A call is therefore as cheap with thousands of
  /// held extents as without; only one that finds nothing asks about all of them.
  virtual std::optional<ExtentId> Victim(const Evictable& evictable) = 0;

  /// Extents tracked.
  virtual size_t size() const = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_POLICY_EVICTION_POLICY_H_
