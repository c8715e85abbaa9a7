// SPDX-License-Identifier: Apache-2.0
//
// VictimOrder: extents ordered by priority, for policies that compute one. Among equal priorities
// the first placed leaves first. Refused extents step aside (see EvictionPolicy::Victim). Ids are
// pointers into the policy's table and must not move while they are in the order. Thread-safety:
// none.
#ifndef QUIRE_KVSERVER_STORE_POLICY_EVICTION_VICTIM_ORDER_H_
#define QUIRE_KVSERVER_STORE_POLICY_EVICTION_VICTIM_ORDER_H_

#include <cstdint>
#include <set>
#include <tuple>
#include <utility>

#include "kvserver/store/policy/eviction/eviction_policy.h"

namespace quire::kvserver {

/// Number of extents aside that each search for a victim asks about again.
inline constexpr int kAskedAgain = 8;

class VictimOrder {
 public:
  /// Position of an extent. `turn` makes it unique: each placement has a greater one.
  struct Place {
    double priority = 0;
    uint64_t turn = 0;
    const ExtentId* id = nullptr;

    friend bool operator<(const Place& a, const Place& b) {
      return std::tie(a.priority, a.turn) < std::tie(b.priority, b.turn);
    }
  };

  void Insert(const Place& place) { order_.insert(place); }
  /// REQUIRES: `place` was inserted and not erased since.
  void Erase(const Place& place) {
    if (order_.erase(place) == 0) aside_.erase(place);
  }
  /// Moves an extent in the order, without allocating. REQUIRES: as Erase for `from`.
  void Move(const Place& from, const Place& to) {
    auto node = order_.extract(from);
    if (node.empty()) node = aside_.extract(from);
    node.value() = to;
    order_.insert(std::move(node));
  }
  /// Returns the first extent that `evictable` accepts, of those in order and some of those aside;
  /// null when it accepts none. Refused extents step aside.
  const ExtentId* First(const EvictionPolicy::Evictable& evictable);
  /// Returns the first extent aside that `evictable` accepts; null when it accepts none. For use
  /// after First found nothing.
  const ExtentId* FirstAside(const EvictionPolicy::Evictable& evictable) const;

 private:
  void AskSomeAgain();

  std::set<Place> order_;
  std::set<Place> aside_;
  Place last_asked_again_;  // Lower bound only; its extent may be gone.
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_POLICY_EVICTION_VICTIM_ORDER_H_
