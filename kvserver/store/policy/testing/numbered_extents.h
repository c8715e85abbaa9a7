// SPDX-License-Identifier: Apache-2.0
//
// Extents by number, for tests of policies.
#ifndef QUIRE_KVSERVER_STORE_POLICY_TESTING_NUMBERED_EXTENTS_H_
#define QUIRE_KVSERVER_STORE_POLICY_TESTING_NUMBERED_EXTENTS_H_

#include <cstring>
#include <vector>

#include "kvserver/store/policy/eviction/eviction_policy.h"

namespace quire::kvserver::testing {

/// Number 0 is the root key.
inline SegmentKey SegmentNumber(uint64_t number) {
  SegmentKey key;
  std::memcpy(key.bytes.data(), &number, sizeof number);
  return key;
}
inline ExtentId ExtentNumber(uint64_t number) { return {.segment = SegmentNumber(number)}; }
inline uint64_t NumberOf(const ExtentId& id) {
  uint64_t number;
  std::memcpy(&number, id.segment.bytes.data(), sizeof number);
  return number;
}

inline bool AnyExtent(const ExtentId&) { return true; }

inline void Insert(EvictionPolicy& policy, uint64_t number, uint64_t bytes = 4096) {
  policy.Insert({.id = ExtentNumber(number), .bytes = bytes});
}
inline void Touch(EvictionPolicy& policy, uint64_t number, int times = 1) {
  for (int i = 0; i < times; ++i) policy.Touch(ExtentNumber(number));
}
/// Evicts the victim and returns its number. REQUIRES: there is one.
inline uint64_t EvictOne(EvictionPolicy& policy) {
  const ExtentId victim = policy.Victim(AnyExtent).value();
  policy.Evict(victim);
  return NumberOf(victim);
}
/// Evicts everything. Returns numbers in order of eviction.
inline std::vector<uint64_t> EvictAll(EvictionPolicy& policy) {
  std::vector<uint64_t> order;
  while (policy.size() > 0) order.push_back(EvictOne(policy));
  return order;
}

}  // namespace quire::kvserver::testing

#endif  // QUIRE_KVSERVER_STORE_POLICY_TESTING_NUMBERED_EXTENTS_H_
