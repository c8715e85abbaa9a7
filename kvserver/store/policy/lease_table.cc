// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/policy/lease_table.h"

namespace quire::kvserver {

StatusOr<LeaseId> LeaseTable::Grant(const ExtentId& extent, TimePoint expiry, TimePoint now) {
  EndExpired(now);
  if (free_.empty()) {
    if (slots_.size() == capacity_) {
      return ResourceExhausted("all ", capacity_, " leases are taken; release some, then retry");
    }
    free_.push_back(static_cast<uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const uint32_t index = free_.back();
  free_.pop_back();
  Slot& slot = slots_[index];
  slot = {.extent = extent, .expiry = expiry, .generation = slot.generation + 1, .taken = true};
  by_expiry_.emplace(expiry, index);
  ++holders_[extent];
  return LeaseId{.slot = index, .generation = slot.generation};
}

Status LeaseTable::Renew(const LeaseId& lease, TimePoint expiry, TimePoint now) {
  EndExpired(now);
  QUIRE_RETURN_IF_ERROR(CheckTaken(lease));
  Slot& slot = slots_[lease.slot];
  by_expiry_.erase({slot.expiry, lease.slot});
  slot.expiry = expiry;
  by_expiry_.emplace(expiry, lease.slot);
  return OkStatus();
}

Status LeaseTable::Release(const LeaseId& lease, TimePoint now) {
  EndExpired(now);
  QUIRE_RETURN_IF_ERROR(CheckTaken(lease));
  End(lease.slot);
  return OkStatus();
}

bool LeaseTable::IsHeld(const ExtentId& extent, TimePoint now) {
  EndExpired(now);
  return holders_.contains(extent);
}

size_t LeaseTable::Count(TimePoint now) {
  EndExpired(now);
  return by_expiry_.size();
}

void LeaseTable::EndExpired(TimePoint now) {
  while (!by_expiry_.empty() && by_expiry_.begin()->first <= now) End(by_expiry_.begin()->second);
}

void LeaseTable::End(uint32_t index) {
  Slot& slot = slots_[index];
  by_expiry_.erase({slot.expiry, index});
  slot.taken = false;
  free_.push_back(index);
  const auto holders = holders_.find(slot.extent);
  if (--holders->second == 0) holders_.erase(holders);
  if (on_end_) on_end_(index);
}

Status LeaseTable::CheckTaken(const LeaseId& lease) const {
  if (lease.slot < slots_.size()) {
    const Slot& slot = slots_[lease.slot];
    if (slot.taken && slot.generation == lease.generation) return OkStatus();
  }
  return FailedPrecondition("lease ", lease.slot, " of generation ", lease.generation,
                            " is over; read again under a new one");
}

}  // namespace quire::kvserver
