// SPDX-License-Identifier: Apache-2.0
//
// LeaseTable: readers that hold an extent in place until they let go or their time is over. A lease
// is a slot and its generation: one that ended is told from the one that took its slot over, so
// that a late release or renewal cannot touch another's lease.
//
// No clock: each call says what time it is, and leases that are over by then end first; `now` does
// not go back from call to call. A lease is over at its expiry, not after it. Every call is O(log
// n) amortised, memory is bounded by `capacity`. Thread-safety: none.
#ifndef QUIRE_KVSERVER_STORE_POLICY_LEASE_TABLE_H_
#define QUIRE_KVSERVER_STORE_POLICY_LEASE_TABLE_H_

#include <cstdint>
#include <functional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "kvserver/store/unit.h"

namespace quire::kvserver {

struct LeaseId {
  uint32_t slot = 0;
  uint32_t generation = 0;
  friend bool operator==(const LeaseId&, const LeaseId&) = default;
};

class LeaseTable {
 public:
  /// Told the slot of each lease that ends, however it ends, before the slot is given again.
  using OnEnd = std::function<void(uint32_t slot)>;

  /// At most `capacity` leases at a time. `on_end` may be null; it must not call the table.
  explicit LeaseTable(uint32_t capacity, OnEnd on_end = nullptr)
      : capacity_(capacity), on_end_(std::move(on_end)) {}

  /// Holds `extent` until `expiry`. RESOURCE_EXHAUSTED when all slots are taken.
  StatusOr<LeaseId> Grant(const ExtentId& extent, TimePoint expiry, TimePoint now);
  /// Moves the expiry, in either direction. FAILED_PRECONDITION when the lease is over.
  [[nodiscard]] Status Renew(const LeaseId& lease, TimePoint expiry, TimePoint now);
  /// Ends it. FAILED_PRECONDITION when it was over before: the reader may have seen bytes that were
  /// replaced, and must read again.
  [[nodiscard]] Status Release(const LeaseId& lease, TimePoint now);

  /// Whether any lease holds `extent`.
  bool IsHeld(const ExtentId& extent, TimePoint now);
  /// Leases that are not over.
  size_t Count(TimePoint now);
  /// Ends what is over by `now`, as every other call does first.
  void EndExpired(TimePoint now);

 private:
  struct Slot {
    ExtentId extent;
    TimePoint expiry;
    uint32_t generation = 0;
    bool taken = false;
  };

  void End(uint32_t slot);
  Status CheckTaken(const LeaseId& lease) const;

  const uint32_t capacity_;
  const OnEnd on_end_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
  std::set<std::pair<TimePoint, uint32_t>> by_expiry_;  // taken slots
  std::unordered_map<ExtentId, uint32_t, ExtentIdHash> holders_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_POLICY_LEASE_TABLE_H_
