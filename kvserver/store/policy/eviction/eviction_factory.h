// SPDX-License-Identifier: Apache-2.0
//
// Eviction policies by name, for options and for the trace replay.
#ifndef QUIRE_KVSERVER_STORE_POLICY_EVICTION_EVICTION_FACTORY_H_
#define QUIRE_KVSERVER_STORE_POLICY_EVICTION_EVICTION_FACTORY_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kvserver/store/policy/eviction/eviction_policy.h"
#include "quire/status.h"

namespace quire::kvserver {

/// Names that MakeEvictionPolicy knows: "lru", "lfu", "s3fifo", "gdsf" (Cost = 1), "gdsf-bytes"
/// (Cost = Size), "pgdsf".
std::vector<std::string> EvictionPolicyNames();

/// INVALID_ARGUMENT listing the known names when `name` is unknown.
StatusOr<std::unique_ptr<EvictionPolicy>> MakeEvictionPolicy(std::string_view name);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_POLICY_EVICTION_EVICTION_FACTORY_H_
