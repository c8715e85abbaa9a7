// SPDX-License-Identifier: Apache-2.0
#include "apps/quire/top/top_numbers.h"

#include <gtest/gtest.h>

namespace quire::cli {
namespace {

using std::chrono::microseconds;

TopSample SampleAt(int seconds, uint64_t hits, uint64_t misses, uint64_t calls) {
  TopSample sample{.at = TimePoint(std::chrono::seconds(seconds)), .stats = {}};
  sample.stats.counters = {{"admission_queued{door=\"read\",tenant=\"a\"}", 3},
                           {"admission_queued{door=\"read\",tenant=\"b\"}", 4},
                           {"calls", calls},
                           {"calls_failed", 99},
                           {"dram_unit_hits", hits},
                           {"dram_unit_misses", misses},
                           {"tenant_ssd_bytes{tenant=\"a\"}", 10},
                           {"tenant_ssd_bytes{tenant=\"b\"}", 20}};
  return sample;
}

TEST(TopNumbersTest, RatesAndRatiosAreOfTheTimeBetween) {
  const TopSample before = SampleAt(0, 100, 0, 50);
  const TopSample now = SampleAt(2, 130, 10, 60);
  const TopNumbers numbers = NumbersOf(&before, now);
  EXPECT_EQ(numbers.hit_ratio, 0.75);
  EXPECT_EQ(numbers.hit_ratio_in_all, 130.0 / 140);
  EXPECT_EQ(numbers.calls_per_second, 5);
  EXPECT_EQ(numbers.failed_per_second, 0) << "calls_failed is no series of calls";
  EXPECT_EQ(numbers.waiting, 7u);
  ASSERT_EQ(numbers.tenants.size(), 2u);
  EXPECT_EQ(numbers.tenants[1].name, "b");
  EXPECT_EQ(numbers.tenants[1].waiting, 4u);
  const TopNumbers first = NumbersOf(nullptr, now);
  EXPECT_FALSE(first.hit_ratio.has_value());
  EXPECT_FALSE(first.calls_per_second.has_value());
  EXPECT_EQ(first.waiting, 7u);
}

TEST(TopNumbersTest, QuantilesAreOfTheTimesInBetween) {
  LatencyCounts before{.buckets = {{1000, 90}}, .sum_nanos = 5};
  const LatencyCounts now{.buckets = {{1000, 92}, {8000, 2}}, .sum_nanos = 9};
  const LatencyCounts since = TimesSince(&before, now);
  EXPECT_EQ(since.sum_nanos, 4u);
  EXPECT_EQ(Quantile(since, 0.5), microseconds(1));
  EXPECT_EQ(Quantile(since, 0.51), microseconds(8));
  EXPECT_EQ(Quantile(now, 0.5), microseconds(1));
  EXPECT_FALSE(Quantile({}, 0.5).has_value());
}

TEST(TopNumbersTest, MethodsThatTookMostComeFirst) {
  TopSample now = SampleAt(1, 0, 0, 0);
  now.stats.histograms = {
      {"call_seconds{method=\"quire.v1.Session/Recall\"}",
       {.buckets = {{2000, 5}}, .sum_nanos = 9}},
      {"call_seconds{method=\"quire.v1.Store/Seal\"}", {.buckets = {{9000, 1}}, .sum_nanos = 10}},
      {"call_seconds{method=\"quire.v1.Store/Stat\"}", {.buckets = {}, .sum_nanos = 0}}};
  const TopNumbers numbers = NumbersOf(nullptr, now);
  ASSERT_EQ(numbers.methods.size(), 2u);
  EXPECT_EQ(numbers.methods[0].name, "Store/Seal");
  EXPECT_EQ(numbers.methods[1].calls, 5u);
  EXPECT_EQ(numbers.recall_ninety_nine, microseconds(2));
}

}  // namespace
}  // namespace quire::cli
