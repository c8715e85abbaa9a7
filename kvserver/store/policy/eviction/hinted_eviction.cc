// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/policy/eviction/hinted_eviction.h"

#include <algorithm>

namespace quire::kvserver {
namespace {

bool IsRaised(Standing standing) { return standing > Standing::kNormal; }

uint64_t ShareOfBytes(uint64_t bytes, double share) {
  if (bytes == QuotaTable::kUnlimited) return bytes;
  return std::min(bytes, static_cast<uint64_t>(static_cast<double>(bytes) * share));
}

}  // namespace

void HintedEviction::SetStanding(const SegmentKey& segment, Standing standing,
                                 std::span<const NewExtent> tracked) {
  if (standing == Standing::kNormal || standing == Standing::kReleased) {
    standings_.erase(segment);
  } else {
    standings_[segment] = standing;
  }
  for (const NewExtent& extent : tracked) Place(extent, standing);
}

void HintedEviction::Place(const NewExtent& extent, Standing standing) {
  Unplace(extent.id);
  if (standing == Standing::kNormal) return;
  uint64_t* raised_of_tenant = nullptr;
  if (IsRaised(standing)) {
    raised_of_tenant = &tenants_[std::string(extent.tenant)];
    if (!MayRaise(extent, *raised_of_tenant)) {
      ++not_raised_;
      return;
    }
    *raised_of_tenant += extent.bytes;
    raised_bytes_ += extent.bytes;
  }
  const auto it = placed_.try_emplace(extent.id).first;
  Placed& placed = it->second;
  placed = {.standing = standing, .bytes = extent.bytes, .tenant_bytes = raised_of_tenant};
  if (IsRaised(standing)) return;
  placed.place = {.priority = static_cast<double>(standing), .turn = ++turn_, .id = &it->first};
  early_.Insert(placed.place);
}

bool HintedEviction::MayRaise(const NewExtent& extent, uint64_t tenant_bytes) const {
  const auto own = limits_.quotas.find(extent.tenant);
  const uint64_t quota = own != limits_.quotas.end() ? own->second : limits_.default_quota;
  const uint64_t of_tenant = ShareOfBytes(quota, limits_.share);
  const uint64_t of_tier = ShareOfBytes(limits_.tier_bytes, limits_.share);
  const auto fits = [&](uint64_t used, uint64_t limit) {
    return used <= limit && extent.bytes <= limit - used;
  };
  return fits(tenant_bytes, of_tenant) && fits(raised_bytes_, of_tier);
}

void HintedEviction::Unplace(const ExtentId& id) {
  const auto it = placed_.find(id);
  if (it == placed_.end()) return;
  const Placed& placed = it->second;
  if (IsRaised(placed.standing)) {
    *placed.tenant_bytes -= placed.bytes;
    raised_bytes_ -= placed.bytes;
  } else {
    early_.Erase(placed.place);
  }
  placed_.erase(it);
}

Standing HintedEviction::StandingOfExtent(const ExtentId& id) const {
  const auto it = placed_.find(id);
  return it == placed_.end() ? Standing::kNormal : it->second.standing;
}

bool HintedEviction::IsReleased(const ExtentId& id) const {
  return StandingOfExtent(id) == Standing::kReleased;
}

void HintedEviction::Insert(const NewExtent& extent) {
  order_->Insert(extent);
  const auto it = standings_.find(extent.id.segment);
  if (it != standings_.end()) Place(extent, it->second);
}

void HintedEviction::Touch(const ExtentId& id) {
  order_->Touch(id);
  const auto it = placed_.find(id);
  if (it == placed_.end() || IsRaised(it->second.standing)) return;
  if (it->second.standing == Standing::kReleased) {
    Unplace(id);
    return;
  }
  const VictimOrder::Place before = it->second.place;
  it->second.place.turn = ++turn_;
  early_.Move(before, it->second.place);
}

void HintedEviction::Evict(const ExtentId& id) {
  Unplace(id);
  order_->Evict(id);
}

void HintedEviction::Remove(const ExtentId& id) {
  Unplace(id);
  order_->Remove(id);
}

std::optional<ExtentId> HintedEviction::Victim(const Evictable& evictable) {
  if (const ExtentId* const early = early_.First(evictable)) return *early;
  if (raised_bytes_ == 0) return order_->Victim(evictable);
  // Extents that are refused for their standing step aside in `order_`, as held ones do.
  for (const Standing most : {Standing::kNormal, Standing::kHigh}) {
    const auto victim = order_->Victim(
        [&](const ExtentId& id) { return StandingOfExtent(id) <= most && evictable(id); });
    if (victim) return victim;
  }
  return order_->Victim(evictable);
}

}  // namespace quire::kvserver
