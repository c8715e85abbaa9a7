// SPDX-License-Identifier: Apache-2.0
//
// HintedEviction: another policy's order, changed by what callers said of segments. Released
// extents leave first, then those of low priority. Raised ones (high, then kept) leave after all
// others, as held ones do. The other policy orders the extents of one standing that are not
// released or low.
//
// Raised extents are bounded to a share of the tier, and to the same share of their tenant's quota.
// Beyond it extents have no standing: they leave as if nothing had been said. No tenant keeps
// others, or its own new extents, out. A released extent that is used again is like any other.
//
// Contract, cost and thread-safety as EvictionPolicy.
#ifndef QUIRE_KVSERVER_STORE_POLICY_EVICTION_HINTED_EVICTION_H_
#define QUIRE_KVSERVER_STORE_POLICY_EVICTION_HINTED_EVICTION_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "kvserver/store/policy/eviction/eviction_policy.h"
#include "kvserver/store/policy/eviction/victim_order.h"
#include "kvserver/store/policy/quota_table.h"
#include "kvserver/store/policy/standing.h"

namespace quire::kvserver {

class HintedEviction final : public EvictionPolicy {
 public:
  /// Shares of the tier that raised extents may have.
  struct Limits {
    uint64_t tier_bytes = QuotaTable::kUnlimited;
    TenantBytes quotas = {};  ///< Quotas of single tenants.
    uint64_t default_quota = QuotaTable::kUnlimited;
    double share = 0.5;
  };
  HintedEviction(std::unique_ptr<EvictionPolicy> order, Limits limits)
      : order_(std::move(order)), limits_(std::move(limits)) {}

  /// Sets the standing of a segment's extents: of `tracked`, and of those inserted later. kReleased
  /// is about the tracked ones only.
  void SetStanding(const SegmentKey& segment, Standing standing,
                   std::span<const NewExtent> tracked);
  bool IsReleased(const ExtentId& id) const;

  void Insert(const NewExtent& extent) override;
  void Touch(const ExtentId& id) override;
  void Evict(const ExtentId& id) override;
  void Remove(const ExtentId& id) override;
  std::optional<ExtentId> Victim(const Evictable& evictable) override;
  size_t size() const override { return order_->size(); }

  uint64_t raised_bytes() const { return raised_bytes_; }
  /// Extents that found no room in a share.
  uint64_t not_raised() const { return not_raised_; }

 private:
  struct Placed {
    Standing standing = Standing::kNormal;
    uint64_t bytes = 0;
    uint64_t* tenant_bytes = nullptr;  ///< Raised bytes of its tenant; for raised ones.
    VictimOrder::Place place = {};     ///< Position in `early_`; for released and low ones.
  };
  using PlacedExtents = std::unordered_map<ExtentId, Placed, ExtentIdHash>;

  void Place(const NewExtent& extent, Standing standing);
  void Unplace(const ExtentId& id);
  bool MayRaise(const NewExtent& extent, uint64_t tenant_bytes) const;
  Standing StandingOfExtent(const ExtentId& id) const;

  const std::unique_ptr<EvictionPolicy> order_;
  const Limits limits_;
  std::unordered_map<SegmentKey, Standing, SegmentKeyHash> standings_;  ///< Low, high and kept.
  PlacedExtents placed_;  ///< Tracked extents that do not leave in the order of `order_` alone.
  VictimOrder early_;     ///< Released and low ones.
  std::map<std::string, uint64_t, std::less<>> tenants_;  ///< Raised bytes of each.
  uint64_t raised_bytes_ = 0;
  uint64_t not_raised_ = 0;
  uint64_t turn_ = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_POLICY_EVICTION_HINTED_EVICTION_H_
