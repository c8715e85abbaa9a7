// SPDX-License-Identifier: Apache-2.0
#include "cluster/placement/placement.h"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

namespace quire::cluster {
namespace {

constexpr uint32_t kFractionBits = 30;

/// The finaliser of SplitMix64: every bit of the input changes half of the output.
uint64_t Mixed(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

/// -log2((hash + 1) / 2^64), about, in units of 2^-30. Each squaring of the mantissa yields one
/// bit.
uint64_t NegativeLog2(uint64_t hash) {
  hash |= 1;
  const auto zeros = static_cast<uint64_t>(std::countl_zero(hash));
  uint64_t mantissa = hash << zeros >> 32;  // In [2^31, 2^32), for [1, 2).
  uint64_t fraction = 0;
  for (uint32_t bit = 0; bit < kFractionBits; ++bit) {
    mantissa = mantissa * mantissa >> 31;
    const uint64_t carry = mantissa >> 32;
    fraction = fraction << 1 | carry;
    mantissa >>= carry;
  }
  return ((zeros + 1) << kFractionBits) - fraction;
}

}  // namespace

Placement::Placement(std::shared_ptr<const ClusterView> view) : view_(std::move(view)) {
  std::map<std::pair<bool, std::string>, uint32_t> zones;  // A node without a zone has its own.
  for (uint32_t i = 0; i < view_->members.size(); ++i) {
    const Member& member = view_->members[i];
    const bool alone = member.zone.empty();
    const auto zone = zones.try_emplace({alone, alone ? member.name : member.zone},
                                        static_cast<uint32_t>(zones.size()));
    nodes_.push_back({.member = i,
                      .hash = HashOfNode(member.node_id),
                      .weight = std::clamp(member.weight, uint32_t{1}, kMaxMemberWeight),
                      .zone = zone.first->second,
                      .takes_new_runs = member.TakesNewRuns()});
  }
}

bool Placement::IsNearer(const Distance& a, const Distance& b) const {
  const uint64_t left = a.log * nodes_[b.node].weight;
  const uint64_t right = b.log * nodes_[a.node].weight;
  return left != right ? left < right : nodes_[a.node].hash < nodes_[b.node].hash;
}

std::vector<Placement::Distance> Placement::Distances(PlacementKey key) const {
  std::vector<Distance> distances(nodes_.size());
  for (uint32_t i = 0; i < nodes_.size(); ++i) {
    distances[i] = {.log = NegativeLog2(Mixed(key.hash ^ nodes_[i].hash)), .node = i};
  }
  return distances;
}

Owners Placement::OwnersOf(PlacementKey key, uint32_t replicas) const {
  std::vector<Distance> left = Distances(key);
  std::erase_if(left, [&](const Distance& d) { return !nodes_[d.node].takes_new_runs; });
  Owners owners;
  std::vector<uint32_t> zones;
  const auto is_new_zone = [&](const Distance& d) {
    return std::ranges::find(zones, nodes_[d.node].zone) == zones.end();
  };
  while (owners.members.size() < replicas && !left.empty()) {
    // The nearest of a new zone, or the nearest of all when every zone has one.
    const auto best = std::ranges::min_element(left, [&](const Distance& a, const Distance& b) {
      const bool a_is_new = is_new_zone(a), b_is_new = is_new_zone(b);
      return a_is_new != b_is_new ? a_is_new : IsNearer(a, b);
    });
    if (is_new_zone(*best)) zones.push_back(nodes_[best->node].zone);
    owners.members.push_back(nodes_[best->node].member);
    left.erase(best);
  }
  owners.num_zones = static_cast<uint32_t>(zones.size());
  return owners;
}

uint32_t Placement::CopiesOf(PlacementKey key) const {
  const ClusterSettings& settings = view_->settings;
  const HotDocument* const hot = view_->FindHot(key.hash);
  if (hot == nullptr || settings.hot_reads_per_second == 0) return settings.replicas;
  return settings.replicas + std::min(hot->extra_replicas, settings.hot_replicas);
}

std::vector<uint32_t> Placement::ReadOrder(PlacementKey key) const {
  std::vector<uint32_t> members = MayHold(key);
  std::erase_if(members, [&](uint32_t member) { return !view_->members[member].Serves(); });
  return members;
}

std::vector<uint32_t> Placement::MayHold(PlacementKey key) const {
  std::vector<Distance> distances = Distances(key);
  std::ranges::sort(distances,
                    [&](const Distance& a, const Distance& b) { return IsNearer(a, b); });
  std::vector<uint32_t> members;
  members.reserve(distances.size());
  for (const Distance& distance : distances) members.push_back(nodes_[distance.node].member);
  return members;
}

std::string Shortfall(const Owners& owners, uint32_t replicas) {
  const size_t nodes = owners.members.size();
  if (nodes < replicas) {
    return std::to_string(replicas) + " replicas are asked for and only " + std::to_string(nodes) +
           " nodes are up: start more, or undrain some";
  }
  if (owners.num_zones < replicas) {
    return "the " + std::to_string(replicas) + " replicas lie in " +
           std::to_string(owners.num_zones) + " zones: start a node in another zone";
  }
  return "";
}

}  // namespace quire::cluster
