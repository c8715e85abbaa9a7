// SPDX-License-Identifier: Apache-2.0
#include "kvserver/service/admission/fair_queue.h"

#include <algorithm>

namespace quire::kvserver {

int64_t FairQueue::Clamped(uint64_t cost) const {
  return static_cast<int64_t>(
      std::clamp<uint64_t>(cost, 1, static_cast<uint64_t>(options_.max_cost)));
}

FairQueue::Tenant& FairQueue::Of(std::string_view tenant) {
  const auto it = tenants_.find(tenant);
  return it != tenants_.end() ? it->second : tenants_[std::string(tenant)];
}

size_t FairQueue::size(std::string_view tenant) const {
  const auto it = tenants_.find(tenant);
  return it == tenants_.end() ? 0 : it->second.calls.size();
}

bool FairQueue::HasRoom(std::string_view tenant) const {
  return size(tenant) < options_.max_per_tenant;
}

void FairQueue::Push(std::string_view tenant, Ticket ticket, uint64_t cost, Priority priority) {
  Tenant& queue = Of(tenant);
  if (queue.calls.empty()) round_.push_back(&queue);
  queue.calls.Push({ticket, Clamped(cost)}, priority);
  ++size_;
}

std::optional<FairQueue::Ticket> FairQueue::Pop() {
  // Terminates: each turn brings a tenant nearer to the cost of its first call.
  while (!round_.empty()) {
    Tenant& queue = *round_.front();
    if (!queue.granted) queue.credit += options_.quantum;
    queue.granted = true;
    if (queue.calls.Next().cost <= queue.credit) {
      const Entry next = queue.calls.Pop();
      queue.credit -= next.cost;
      OnGone(queue);
      return next.ticket;
    }
    queue.granted = false;
    round_.splice(round_.end(), round_, round_.begin());
  }
  return std::nullopt;
}

void FairQueue::OnGone(Tenant& tenant) {
  --size_;
  if (!tenant.calls.empty()) return;
  round_.remove(&tenant);
  tenant.granted = false;
  tenant.credit = std::min<int64_t>(tenant.credit, 0);
}

void FairQueue::Remove(std::string_view tenant, Ticket ticket) {
  Tenant& queue = Of(tenant);
  queue.calls.Erase({.ticket = ticket});
  OnGone(queue);
}

std::optional<FairQueue::Ticket> FairQueue::Displace(std::string_view tenant, Priority priority) {
  Tenant& queue = Of(tenant);
  const auto displaced = queue.calls.PopLessUrgent(priority);
  if (!displaced) return std::nullopt;
  OnGone(queue);
  return displaced->ticket;
}

void FairQueue::Charge(std::string_view tenant, uint64_t cost) {
  if (size_ == 0) return;
  Tenant& queue = Of(tenant);
  queue.credit = std::max(queue.credit - Clamped(cost), -options_.max_cost);
}

}  // namespace quire::kvserver
