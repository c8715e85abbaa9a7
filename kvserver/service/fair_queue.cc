// SPDX-License-Identifier: Apache-2.0
#include "kvserver/service/fair_queue.h"

#include <algorithm>

namespace quire::kvserver {

size_t FairQueue::Tenant::size() const {
  size_t sum = 0;
  for (const auto& queue : calls) sum += queue.size();
  return sum;
}

std::deque<FairQueue::Entry>& FairQueue::Tenant::MostUrgent() {
  return *std::find_if(calls.rbegin(), calls.rend(), [](const auto& q) { return !q.empty(); });
}

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
  return it == tenants_.end() ? 0 : it->second.size();
}

bool FairQueue::HasRoom(std::string_view tenant) const {
  return size(tenant) < options_.max_per_tenant;
}

void FairQueue::Push(std::string_view tenant, Ticket ticket, uint64_t cost, Priority priority) {
  Tenant& queue = Of(tenant);
  if (queue.size() == 0) round_.push_back(&queue);
  queue.calls[static_cast<size_t>(priority)].push_back({ticket, Clamped(cost)});
  ++size_;
}

std::optional<FairQueue::Ticket> FairQueue::Pop() {
  // Ends: each turn of the round brings a tenant nearer to the cost of its first call.
  while (!round_.empty()) {
    Tenant& queue = *round_.front();
    if (!queue.granted) queue.credit += options_.quantum;
    queue.granted = true;
    std::deque<Entry>& calls = queue.MostUrgent();
    if (calls.front().cost <= queue.credit) {
      const Entry next = calls.front();
      calls.pop_front();
      queue.credit -= next.cost;
      --size_;
      if (queue.size() == 0) {
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
  size_t gone = 0;
  for (std::deque<Entry>& calls : queue.calls) {
    gone += std::erase_if(calls, [&](const Entry& e) { return e.ticket == ticket; });
  }
  size_ -= gone;
  if (gone > 0 && queue.size() == 0) {
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
