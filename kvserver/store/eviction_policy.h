// SPDX-License-Identifier: Apache-2.0
//
// EvictionPolicy: which extent leaves DRAM first. Bookkeeping only: no I/O, no clock, no locks.
// Thread-safety: none; the DRAM tier calls it under its own lock.
// testing/policy_conformance.h is the test suite that every implementation passes.
#ifndef QUIRE_KVSERVER_STORE_EVICTION_POLICY_H_
#define QUIRE_KVSERVER_STORE_EVICTION_POLICY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "kvserver/store/unit.h"

namespace quire::kvserver {

class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;

  /// Starts to track an extent of `bytes` bytes. REQUIRES: it is not tracked.
  virtual void Insert(const ExtentId& id, uint64_t bytes) = 0;

  /// A reader used the extent. Nothing happens when it is not tracked.
  virtual void Touch(const ExtentId& id) = 0;

  /// The extent is gone. Nothing happens when it is not tracked.
  virtual void Remove(const ExtentId& id) = 0;

  /// The first extent, in the policy's order of eviction, that `evictable` agrees to; nullopt when
  /// it agrees to none. The extent stays tracked until Remove.
  virtual std::optional<ExtentId> Victim(
      const std::function<bool(const ExtentId&)>& evictable) const = 0;

  /// Extents tracked.
  virtual size_t size() const = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_EVICTION_POLICY_H_
