// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/policy/eviction/pgdsf.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace quire::kvserver {
namespace {

constexpr size_t kFewestGhosts = 1024;
constexpr size_t kGhostsPerExtent = 4;

}  // namespace

void MeanCost::Add(double seconds_per_token) {
  if (!std::isfinite(seconds_per_token) || seconds_per_token <= 0) return;
  seconds += seconds_per_token;
  ++samples;
}

void Pgdsf::Insert(const NewExtent& extent) {
  const auto it = entries_.try_emplace(extent.id).first;
  Entry& entry = it->second;
  entry.history = ghosts_.Take(extent.id).value_or(History{});
  entry.history.cost.Add(extent.seconds_per_token);
  all_costs_.Add(extent.seconds_per_token);
  ++entry.history.frequency;
  entry.bytes = extent.bytes;
  entry.parent = extent.parent == kRootKey ? extent.id : extent.parent_id();
  entry.place.id = &it->first;
  SetPlace(entry);
  OrderOf(extent.id).Insert(entry.place);
  if (entry.parent != extent.id) AddChild(entry.parent);
}

void Pgdsf::Touch(const ExtentId& id) {
  const auto it = entries_.find(id);
  if (it == entries_.end()) return;
  const VictimOrder::Place before = it->second.place;
  ++it->second.history.frequency;
  SetPlace(it->second);
  OrderOf(id).Move(before, it->second.place);
}

void Pgdsf::Evict(const ExtentId& id) {
  const auto it = entries_.find(id);
  if (it == entries_.end()) return;
  clock_ = std::max(clock_, it->second.place.priority);
  const History history = it->second.history;
  const uint64_t bytes = it->second.bytes;
  Remove(id);
  ghosts_.Remember(id, bytes, history);
  ghosts_.Trim(std::max(kFewestGhosts, kGhostsPerExtent * entries_.size()),
               std::numeric_limits<uint64_t>::max());
}

void Pgdsf::Remove(const ExtentId& id) {
  const auto it = entries_.find(id);
  if (it == entries_.end()) return;
  OrderOf(id).Erase(it->second.place);
  const ExtentId parent = it->second.parent;
  entries_.erase(it);
  if (parent != id) RemoveChild(parent);
}

std::optional<ExtentId> Pgdsf::Victim(const Evictable& evictable) {
  const ExtentId* victim = leaves_.First(evictable);
  if (!victim) victim = inner_.First(evictable);
  if (!victim) victim = leaves_.FirstAside(evictable);
  if (!victim) victim = inner_.FirstAside(evictable);
  return victim ? std::optional(*victim) : std::nullopt;
}

void Pgdsf::SetPlace(Entry& entry) {
  const double cost = entry.history.cost.Or(all_costs_.Or(1));
  entry.place.priority = clock_ + static_cast<double>(entry.history.frequency) * cost;
  entry.place.turn = ++turn_;
}

void Pgdsf::AddChild(const ExtentId& parent) {
  if (++children_[parent] > 1) return;
  const auto it = entries_.find(parent);
  if (it == entries_.end()) return;
  leaves_.Erase(it->second.place);
  inner_.Insert(it->second.place);
}

void Pgdsf::RemoveChild(const ExtentId& parent) {
  const auto children = children_.find(parent);
  if (--children->second > 0) return;
  children_.erase(children);
  const auto it = entries_.find(parent);
  if (it == entries_.end()) return;
  inner_.Erase(it->second.place);
  leaves_.Insert(it->second.place);
}

}  // namespace quire::kvserver
