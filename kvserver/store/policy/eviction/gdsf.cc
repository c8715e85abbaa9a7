// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/policy/eviction/gdsf.h"

#include <algorithm>

namespace quire::kvserver {

void Gdsf::Insert(const NewExtent& extent) {
  const auto it = entries_.try_emplace(extent.id).first;
  Entry& entry = it->second;
  const auto bytes = static_cast<double>(std::max<uint64_t>(extent.bytes, 1));
  entry.worth = cost_ == Cost::kOne ? 1 / bytes : 1;
  entry.place.id = &it->first;
  SetPlace(entry);
  order_.Insert(entry.place);
}

void Gdsf::Touch(const ExtentId& id) {
  const auto it = entries_.find(id);
  if (it == entries_.end()) return;
  const VictimOrder::Place before = it->second.place;
  ++it->second.frequency;
  SetPlace(it->second);
  order_.Move(before, it->second.place);
}

void Gdsf::Evict(const ExtentId& id) {
  const auto it = entries_.find(id);
  if (it == entries_.end()) return;
  clock_ = std::max(clock_, it->second.place.priority);
  Remove(id);
}

void Gdsf::Remove(const ExtentId& id) {
  const auto it = entries_.find(id);
  if (it == entries_.end()) return;
  order_.Erase(it->second.place);
  entries_.erase(it);
}

std::optional<ExtentId> Gdsf::Victim(const Evictable& evictable) {
  const ExtentId* victim = order_.First(evictable);
  if (!victim) victim = order_.FirstAside(evictable);
  return victim ? std::optional(*victim) : std::nullopt;
}

void Gdsf::SetPlace(Entry& entry) {
  entry.place.priority = clock_ + static_cast<double>(entry.frequency) * entry.worth;
  entry.place.turn = ++turn_;
}

}  // namespace quire::kvserver
