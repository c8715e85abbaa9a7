// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/policy/eviction/eviction_factory.h"

#include "kvserver/store/policy/eviction/gdsf.h"
#include "kvserver/store/policy/eviction/lfu.h"
#include "kvserver/store/policy/eviction/lru.h"
#include "kvserver/store/policy/eviction/pgdsf.h"
#include "kvserver/store/policy/eviction/s3_fifo.h"

namespace quire::kvserver {
namespace {

using PolicyPtr = std::unique_ptr<EvictionPolicy>;

struct Known {
  std::string_view name;
  PolicyPtr (*make)();
};

constexpr Known kKnown[] = {
    {"lru", [] { return PolicyPtr(std::make_unique<Lru>()); }},
    {"lfu", [] { return PolicyPtr(std::make_unique<Lfu>()); }},
    {"s3fifo", [] { return PolicyPtr(std::make_unique<S3Fifo>()); }},
    {"gdsf", [] { return PolicyPtr(std::make_unique<Gdsf>(Gdsf::Cost::kOne)); }},
    {"gdsf-bytes", [] { return PolicyPtr(std::make_unique<Gdsf>(Gdsf::Cost::kBytes)); }},
    {"pgdsf", [] { return PolicyPtr(std::make_unique<Pgdsf>()); }},
};

}  // namespace

std::vector<std::string> EvictionPolicyNames() {
  std::vector<std::string> names;
  for (const Known& known : kKnown) names.emplace_back(known.name);
  return names;
}

StatusOr<PolicyPtr> MakeEvictionPolicy(std::string_view name) {
  std::string names;
  for (const Known& known : kKnown) {
    if (known.name == name) return known.make();
    names += (names.empty() ? "" : ", ") + std::string(known.name);
  }
  return InvalidArgument("unknown eviction policy '", name, "'; use one of ", names);
}

}  // namespace quire::kvserver
