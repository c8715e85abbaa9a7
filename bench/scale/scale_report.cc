// SPDX-License-Identifier: Apache-2.0
#include "bench/scale/scale_report.h"

#include <cmath>
#include <string>

namespace quire::scale {
namespace {

/// Deviations by chance shrink with the root of the documents.
double AtFullSize(double over_fair, const ScaleOptions& options, uint64_t sampled) {
  const double ratio = static_cast<double>(sampled) / static_cast<double>(options.documents());
  return 1 + (over_fair - 1) * std::sqrt(ratio);
}

/// Payload that a change of the sample's copies moves in the whole cluster.
double MovedBytes(const ScaleOptions& options, uint64_t copies, uint64_t sampled) {
  return static_cast<double>(copies) / static_cast<double>(sampled) *
         static_cast<double>(options.segments) * static_cast<double>(options.segment_bytes);
}

cli::Json BalanceJson(const ScaleOptions& options, const PlacementScale& placement) {
  const uint64_t sampled = placement.documents;
  return {{"sampled_documents", sampled},
          {"most_over_fair", placement.most_over_fair},
          {"least_over_fair", placement.least_over_fair},
          {"deviation_by_chance", placement.random_deviation},
          {"most_over_fair_at_full_size", AtFullSize(placement.most_over_fair, options, sampled)},
          {"least_over_fair_at_full_size", AtFullSize(placement.least_over_fair, options, sampled)},
          {"weights", kScaleWeights},
          {"weights_over_fair", placement.weights_over_fair}};
}

cli::Json MovedJson(const ScaleOptions& options, const MovedCopies& moved, uint64_t sampled) {
  return {{"moved_vs_least", moved.vs_least()},
          {"sampled_copies_moved", moved.moved},
          {"bytes_moved", MovedBytes(options, moved.moved, sampled)},
          {"bytes_least", MovedBytes(options, moved.least, sampled)}};
}

cli::Json EtcdJson(const EtcdScale& etcd) {
  return {{"keys", etcd.keys},
          {"bytes", etcd.bytes},
          {"bytes_per_node", etcd.bytes_per_node},
          {"bytes_per_document", etcd.bytes_per_document},
          {"renewals_per_second", etcd.renewals_per_second},
          {"transactions_per_second", etcd.transactions_per_second},
          {"events_per_second", etcd.events_per_second},
          {"event_bytes_per_second", etcd.event_bytes_per_second},
          {"event_bytes_per_second_of_a_node", etcd.event_bytes_per_node}};
}

cli::Json MemoryJson(const ScaleOptions& options, const MemoryScale& memory) {
  const double segments_of_node =
      static_cast<double>(options.segments) * options.replicas / static_cast<double>(options.nodes);
  return {{"sampled_segments", memory.sampled_segments},
          {"sampled_bytes", memory.sampled_bytes},
          {"bytes_per_segment", memory.bytes_per_segment()},
          {"segments_of_a_node", segments_of_node},
          {"segment_bytes_of_a_node", segments_of_node * memory.bytes_per_segment()},
          {"view_bytes", memory.view_bytes}};
}

void AddRows(const std::string& prefix, const cli::Json& json, cli::Table* table) {
  for (const auto& [name, value] : json.items()) {
    if (value.is_object()) {
      AddRows(prefix + name + " ", value, table);
    } else {
      table->AddRow({prefix + name, value.dump()});
    }
  }
}

}  // namespace

ScaleFigures MeasureScale(const ScaleOptions& options) {
  // Memory first, while the heap has no holes.
  const MemoryScale memory = MeasureMemory(options);
  return {.placement = MeasurePlacement(options), .etcd = MeasureEtcd(options), .memory = memory};
}

cli::Json ScaleJson(const ScaleOptions& options, const ScaleFigures& figures) {
  const PlacementScale& placement = figures.placement;
  const double pass_seconds =
      placement.seconds_per_document * static_cast<double>(options.documents());
  return {{"join_moved_vs_least", placement.join.vs_least()},
          {"leave_moved_vs_least", placement.leave.vs_least()},
          {"nodes", options.nodes},
          {"segments", options.segments},
          {"documents", options.documents()},
          {"replicas", options.replicas},
          {"zones", options.zones},
          {"segment_bytes", options.segment_bytes},
          {"lease_seconds", options.lease_seconds},
          {"registrations_per_second", options.registrations_per_second},
          {"restarts_per_day", options.restarts_per_day},
          {"balance", BalanceJson(options, placement)},
          {"join", MovedJson(options, placement.join, placement.documents)},
          {"leave", MovedJson(options, placement.leave, placement.documents)},
          {"time",
           {{"build_us", placement.build_seconds * 1e6},
            {"us_per_document", placement.seconds_per_document * 1e6},
            {"seconds_for_all_documents", pass_seconds},
            {"seconds_for_a_nodes_documents", pass_seconds * options.replicas / options.nodes}}},
          {"etcd", EtcdJson(figures.etcd)},
          {"memory", MemoryJson(options, figures.memory)}};
}

cli::Table ScaleTable(const cli::Json& report) {
  cli::Table table({{"WHAT"}, {"VALUE", cli::Table::kRight}});
  AddRows("", report, &table);
  return table;
}

}  // namespace quire::scale
