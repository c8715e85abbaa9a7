// SPDX-License-Identifier: Apache-2.0
//
// RecentMap: the entries that were added last, up to a number. Older ones are forgotten.
// Thread-safety: none.
#ifndef QUIRE_CLIENT_ROUTING_RECENT_MAP_H_
#define QUIRE_CLIENT_ROUTING_RECENT_MAP_H_

#include <cstddef>
#include <deque>
#include <map>
#include <utility>

namespace quire::internal {

template <typename Key, typename Value>
class RecentMap {
 public:
  /// Keeps `most` entries, at least one.
  explicit RecentMap(size_t most) : most_(most) {}

  /// Null for a key that is not there. Valid until the next change.
  Value* Find(const Key& key) {
    const auto found = values_.find(key);
    return found == values_.end() ? nullptr : &found->second;
  }
  /// Adds the entry, or gives the key another value.
  void Put(const Key& key, Value value) {
    const auto [entry, added] = values_.insert_or_assign(key, std::move(value));
    if (!added) return;
    order_.push_back(key);
    if (order_.size() <= most_) return;
    values_.erase(order_.front());
    order_.pop_front();
  }
  template <typename Visit>
  void VisitAll(const Visit& visit) const {
    for (const auto& [key, value] : values_) visit(value);
  }
  size_t size() const { return values_.size(); }

 private:
  const size_t most_;
  std::map<Key, Value> values_;
  std::deque<Key> order_;  ///< The oldest first.
};

}  // namespace quire::internal

#endif  // QUIRE_CLIENT_ROUTING_RECENT_MAP_H_
