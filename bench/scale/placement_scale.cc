// SPDX-License-Identifier: Apache-2.0
#include "bench/scale/placement_scale.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "cluster/placement/placement.h"
#include "quire/clock.h"

namespace quire::scale {
namespace {

using cluster::ClusterView;
using cluster::Placement;
using cluster::PlacementKey;

/// Node ids by document: `replicas` of each, as indices of a view that has all nodes.
struct PlacedSample {
  std::vector<std::vector<uint32_t>> owners;
  double seconds = 0;
};

double SecondsSince(TimePoint start) {
  return std::chrono::duration<double>(SystemClock().Now() - start).count();
}

/// `offset` is the index that the view's first member has among all nodes.
PlacedSample Place(const Placement& placement, const std::vector<PlacementKey>& keys,
                   uint32_t replicas, uint32_t offset) {
  PlacedSample placed;
  placed.owners.reserve(keys.size());
  const TimePoint start = SystemClock().Now();
  for (const PlacementKey key : keys) {
    placed.owners.push_back(placement.OwnersOf(key, replicas).members);
  }
  placed.seconds = SecondsSince(start);
  for (auto& owners : placed.owners) {
    for (uint32_t& owner : owners) owner += offset;
  }
  return placed;
}

uint64_t CopiesOn(uint32_t node, const PlacedSample& placed) {
  uint64_t copies = 0;
  for (const auto& owners : placed.owners) copies += std::ranges::count(owners, node);
  return copies;
}

uint64_t NewCopies(const PlacedSample& before, const PlacedSample& after) {
  uint64_t copies = 0;
  for (size_t i = 0; i < before.owners.size(); ++i) {
    for (const uint32_t owner : after.owners[i]) {
      copies += std::ranges::find(before.owners[i], owner) == before.owners[i].end() ? 1 : 0;
    }
  }
  return copies;
}

void MeasureBalance(const ClusterView& view, const PlacedSample& placed, PlacementScale* scale) {
  std::vector<uint64_t> copies(view.members.size());
  uint64_t all_copies = 0, all_weights = 0;
  for (const auto& owners : placed.owners) {
    for (const uint32_t owner : owners) ++copies[owner];
    all_copies += owners.size();
  }
  for (const auto& member : view.members) all_weights += member.weight;
  const double copies_per_weight =
      static_cast<double>(all_copies) / static_cast<double>(all_weights);

  scale->least_over_fair = static_cast<double>(all_copies);
  std::vector<double> of_weight(std::size(kScaleWeights)), fair_of_weight(of_weight.size());
  for (size_t node = 0; node < copies.size(); ++node) {
    const double fair = copies_per_weight * view.members[node].weight;
    const double share = static_cast<double>(copies[node]) / fair;
    scale->most_over_fair = std::max(scale->most_over_fair, share);
    scale->least_over_fair = std::min(scale->least_over_fair, share);
    of_weight[node % of_weight.size()] += static_cast<double>(copies[node]);
    fair_of_weight[node % of_weight.size()] += fair;
  }
  // The smallest nodes vary most.
  scale->random_deviation = 1 / std::sqrt(copies_per_weight);
  for (size_t i = 0; i < of_weight.size(); ++i) {
    scale->weights_over_fair.push_back(of_weight[i] / fair_of_weight[i]);
  }
}

}  // namespace

PlacementScale MeasurePlacement(const ScaleOptions& options) {
  const std::vector<PlacementKey> keys = SampledKeys(options);
  PlacementScale scale{.documents = keys.size()};
  const auto all = std::make_shared<const ClusterView>(ViewOfNodes(options, 0, options.nodes));
  const TimePoint start = SystemClock().Now();
  const Placement placement(all);
  scale.build_seconds = SecondsSince(start);
  const PlacedSample placed = Place(placement, keys, options.replicas, 0);
  scale.seconds_per_document = placed.seconds / static_cast<double>(keys.size());
  MeasureBalance(*all, placed, &scale);

  const PlacedSample larger = Place(
      Placement(std::make_shared<const ClusterView>(ViewOfNodes(options, 0, options.nodes + 1))),
      keys, options.replicas, 0);
  scale.join = {.moved = NewCopies(placed, larger), .least = CopiesOn(options.nodes, larger)};
  // The first node leaves.
  const PlacedSample smaller = Place(
      Placement(std::make_shared<const ClusterView>(ViewOfNodes(options, 1, options.nodes - 1))),
      keys, options.replicas, 1);
  scale.leave = {.moved = NewCopies(placed, smaller), .least = CopiesOn(0, placed)};
  return scale;
}

}  // namespace quire::scale
