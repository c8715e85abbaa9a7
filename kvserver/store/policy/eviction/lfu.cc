// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/policy/eviction/lfu.h"

namespace quire::kvserver {

void Lfu::Insert(const NewExtent& extent) {
  const auto it = places_.try_emplace(extent.id).first;
  it->second = {.priority = 1, .turn = ++turn_, .id = &it->first};
  order_.Insert(it->second);
}

void Lfu::Touch(const ExtentId& id) {
  const auto it = places_.find(id);
  if (it == places_.end()) return;
  const VictimOrder::Place before = it->second;
  it->second.priority += 1;
  it->second.turn = ++turn_;
  order_.Move(before, it->second);
}

void Lfu::Remove(const ExtentId& id) {
  const auto it = places_.find(id);
  if (it == places_.end()) return;
  order_.Erase(it->second);
  places_.erase(it);
}

std::optional<ExtentId> Lfu::Victim(const Evictable& evictable) {
  const ExtentId* victim = order_.First(evictable);
  if (!victim) victim = order_.FirstAside(evictable);
  return victim ? std::optional(*victim) : std::nullopt;
}

}  // namespace quire::kvserver
