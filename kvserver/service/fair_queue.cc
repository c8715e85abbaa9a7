// SPDX-License-Identifier: Apache-2.0
#include "kvserver/service/fair_queue.h"

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

void FairQueue::Push(std::string_view tenant, Ticket ticket, uint64_t cost) {
  Tenant& queue = Of(tenant);
  if (queue.calls.empty()) round_.push_back(&queue);
  queue.calls.push_back({ticket, Clamped(cost)});
  ++size_;
}

std::optional<FairQueue::Ticket> FairQueue::Pop() {
  // Ends: each turn of the round brings a tenant nearer to the cost of its first call.
  while (!round_.empty()) {
    Tenant& queue = *round_.front();
    if (!queue.granted) queue.credit += options_.quantum;
    queue.granted = true;
    if (queue.calls.front().cost <= queue.credit) {
      const Entry next = queue.calls.front();
      queue.calls.pop_front();
      queue.credit -= next.cost;
      --size_;
      if (queue.calls.empty()) {
        round_.pop_front();
        EndTurn(queue);
      }
      return next.ticket;
    }
    queue.granted = false;
    round_.splice(round_.end(), round_, round_.begin());
  }
  return std::nullopt;
}

void FairQueue::EndTurn(Tenant& tenant) {
  tenant.granted = false;
  tenant.credit = std::min<int64_t>(tenant.credit, 0);
}

void FairQueue::Remove(std::string_view tenant, Ticket ticket) {
  Tenant& queue = Of(tenant);
  const auto gone = std::erase_if(queue.calls, [&](const Entry& e) { return e.ticket == ticket; });
  size_ -= gone;
  if (gone > 0 && queue.calls.empty()) {
    round_.remove(&queue);
    EndTurn(queue);
  }
}

void FairQueue::Charge(std::string_view tenant, uint64_t cost) {
  if (size_ == 0) return;
  Tenant& queue = Of(tenant);
  queue.credit = std::max(queue.credit - Clamped(cost), -options_.max_cost);
}

}  // namespace quire::kvserver
