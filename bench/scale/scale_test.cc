// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/scale/etcd_scale.h"
#include "bench/scale/memory_scale.h"
#include "bench/scale/placement_scale.h"
#include "bench/scale/scale_report.h"

namespace quire::scale {
namespace {

using ::testing::Each;
using ::testing::Gt;
using ::testing::Lt;
using ::testing::SizeIs;

ScaleOptions SmallCluster() {
  return {.nodes = 30,
          .segments = 600'000,
          .sampled_documents = 6000,
          .sampled_segments = 2000,
          .registrations_per_second = 4};
}

TEST(PlacementScaleTest, NodesAreFilledByTheirWeights) {
  const PlacementScale scale = MeasurePlacement(SmallCluster());
  EXPECT_EQ(scale.documents, 6000u);
  EXPECT_THAT(scale.weights_over_fair, SizeIs(3));
  EXPECT_THAT(scale.weights_over_fair, Each(Gt(0.9)));
  EXPECT_THAT(scale.weights_over_fair, Each(Lt(1.1)));
  EXPECT_GT(scale.most_over_fair, 1);
  EXPECT_LT(scale.least_over_fair, 1);
}

TEST(PlacementScaleTest, AChangeOfOneNodeMovesLittleMoreThanItsCopies) {
  const PlacementScale scale = MeasurePlacement(SmallCluster());
  EXPECT_GT(scale.join.least, 0u);
  EXPECT_GT(scale.leave.least, 0u);
  EXPECT_GE(scale.join.vs_least(), 1);
  EXPECT_GE(scale.leave.vs_least(), 1);
  EXPECT_LT(scale.join.vs_least(), 1.1);
  EXPECT_LT(scale.leave.vs_least(), 1.1);
}

TEST(EtcdScaleTest, KeysGrowWithNodesAndDocumentsAndEventsWithTheirProduct) {
  ScaleOptions options = SmallCluster();
  const EtcdScale scale = MeasureEtcd(options);
  EXPECT_GE(scale.keys, 2u * options.nodes + options.documents());
  EXPECT_GT(scale.bytes_per_document, 200);
  EXPECT_GT(scale.bytes_per_node, 200);
  options.registrations_per_second *= 2;
  const EtcdScale busier = MeasureEtcd(options);
  EXPECT_EQ(busier.bytes, scale.bytes);
  EXPECT_GT(busier.event_bytes_per_second, 1.5 * scale.event_bytes_per_second);
  EXPECT_EQ(busier.renewals_per_second, 9);  // Thirty nodes, three times in ten seconds.
}

TEST(MemoryScaleTest, ASegmentTakesSomeHundredBytes) {
  const MemoryScale memory = MeasureMemory(SmallCluster());
  EXPECT_GT(memory.bytes_per_segment(), 100);
  EXPECT_LT(memory.bytes_per_segment(), 2000);
  EXPECT_GT(memory.view_bytes, 30 * sizeof(cluster::Member));
}

TEST(ScaleReportTest, FiguresOfTheSampleAreScaledToTheWholeCluster) {
  const ScaleOptions options = SmallCluster();
  const cli::Json report = ScaleJson(options, MeasureScale(options));
  EXPECT_EQ(report["memory"]["segments_of_a_node"], 40'000);
  const double sampled = report["join"]["sampled_copies_moved"];
  const double bytes = report["join"]["bytes_moved"];
  EXPECT_NEAR(bytes, sampled / 6000 * 600'000 * options.segment_bytes, 1e6);
  EXPECT_EQ(report["balance"]["most_over_fair"], report["balance"]["most_over_fair_at_full_size"]);
  EXPECT_GT(ScaleTable(report).num_rows(), 30u);
}

}  // namespace
}  // namespace quire::scale
