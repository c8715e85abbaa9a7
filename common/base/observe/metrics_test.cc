// SPDX-License-Identifier: Apache-2.0
#include "common/base/observe/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>
#include <vector>

#include "common/base/observe/latency_histogram.h"
#include "common/base/random.h"
#include "tests/kit/fake_clock.h"

namespace quire {
namespace {

using std::chrono::nanoseconds;

TEST(LatencyHistogramTest, EveryTimeIsInTheBucketOfItsBounds) {
  for (size_t i = 0; i < LatencyHistogram::kBuckets; ++i) {
    const uint64_t upper = LatencyHistogram::UpperBound(i);
    EXPECT_EQ(LatencyHistogram::BucketOf(upper), i) << upper;
    if (i + 1 < LatencyHistogram::kBuckets) {
      EXPECT_EQ(LatencyHistogram::BucketOf(upper + 1), i + 1) << upper;
      EXPECT_LE(LatencyHistogram::UpperBound(i + 1) - upper, std::max<uint64_t>(upper / 8, 1));
    }
  }
  EXPECT_EQ(LatencyHistogram::BucketOf(0), 0u);
  EXPECT_EQ(LatencyHistogram::BucketOf(UINT64_MAX), LatencyHistogram::kBuckets - 1);
  for (uint32_t bits = 0; bits <= LatencyHistogram::kMaxBits; ++bits) {
    const uint64_t power = uint64_t{1} << bits;
    EXPECT_EQ(LatencyHistogram::UpperBound(LatencyHistogram::BucketOf(power)), power);
  }
}

TEST(LatencyHistogramTest, QuantilesAreAtMostAnEighthAboveTheTrueOnes) {
  const uint64_t seed = 7;
  SeededRandom random(seed);
  for (const double spread : {0.5, 3.0, 8.0}) {
    LatencyHistogram histogram;
    std::vector<uint64_t> exact;
    for (int i = 0; i < 20000; ++i) {
      exact.push_back(static_cast<uint64_t>(std::exp(10 + spread * random.Normal())));
      histogram.Record(nanoseconds(exact.back()));
    }
    std::sort(exact.begin(), exact.end());
    const LatencyHistogram::Snapshot snapshot = histogram.Read();
    EXPECT_EQ(snapshot.count(), exact.size());
    EXPECT_EQ(snapshot.max_nanos, exact.back());
    for (const double q : {0.0, 0.001, 0.5, 0.9, 0.99, 0.999, 1.0}) {
      const auto rank = static_cast<size_t>(std::max(1.0, std::ceil(q * 20000)));
      const uint64_t truth = exact[rank - 1];
      const uint64_t estimate = snapshot.Quantile(q);
      EXPECT_GE(estimate, truth) << "q " << q << " seed " << seed;
      if (truth <= uint64_t{1} << LatencyHistogram::kMaxBits) {
        EXPECT_LE(estimate, truth + truth / 8 + 1) << "q " << q << " seed " << seed;
      }
    }
  }
}

TEST(LatencyHistogramTest, NothingNegativeAndEndlessTimesAreCounted) {
  LatencyHistogram histogram;
  EXPECT_EQ(histogram.Read().Quantile(0.5), 0u);
  histogram.Record(nanoseconds(-5));
  EXPECT_EQ(histogram.Read().count(), 1u);
  EXPECT_EQ(histogram.Read().Quantile(1), 0u);
  histogram.Record(Duration::max());
  EXPECT_EQ(histogram.Read().Quantile(1), static_cast<uint64_t>(Duration::max().count()));
  EXPECT_EQ(histogram.Read().CountUpTo(1), 1u);
}

TEST(LatencyHistogramTest, MergedIsAsIfRecordedInOne) {
  SeededRandom random(3);
  LatencyHistogram one, two, both;
  for (int i = 0; i < 1000; ++i) {
    const nanoseconds time(random.Below(1 << 20));
    (i % 3 == 0 ? one : two).Record(time);
    both.Record(time);
  }
  LatencyHistogram::Snapshot merged = one.Read();
  merged.Merge(two.Read());
  EXPECT_EQ(merged.counts, both.Read().counts);
  EXPECT_EQ(merged.sum_nanos, both.Read().sum_nanos);
  EXPECT_EQ(merged.max_nanos, both.Read().max_nanos);
}

TEST(LatencyHistogramTest, NothingIsLostBetweenThreads) {
  LatencyHistogram histogram;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&histogram, t] {
      for (int i = 0; i < 10000; ++i) histogram.Record(nanoseconds(t * 10000 + i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const LatencyHistogram::Snapshot snapshot = histogram.Read();
  EXPECT_EQ(snapshot.count(), 40000u);
  EXPECT_EQ(snapshot.sum_nanos, 39999u * 40000u / 2);
  EXPECT_EQ(snapshot.max_nanos, 39999u);
}

TEST(LatencyTimerTest, RecordsTheTimeOfItsScopeWhereItIsTold) {
  testing::FakeClock clock;
  LatencyHistogram first, second;
  {
    const LatencyTimer timer(first, clock);
    clock.Advance(nanoseconds(700));
  }
  {
    LatencyTimer timer(first, clock);
    clock.Advance(nanoseconds(900));
    timer.CountAs(second);
  }
  EXPECT_EQ(first.Read().sum_nanos, 700u);
  EXPECT_EQ(second.Read().sum_nanos, 900u);
}

struct TwoKinds {
  void VisitMetrics(MetricsVisitor& visit) const {
    visit.Counter("reads", "Reads.", 3, {{"tier", "dram"}, {"op", "get"}});
    visit.Gauge("held", "Held now.", 4);
    visit.Histogram("read_seconds", "Times of reads.", times);
  }
  LatencyHistogram times;
};

TEST(MetricValuesTest, AreByNameAndLabels) {
  const std::map<std::string, uint64_t> expected = {{"held", 4},
                                                    {"reads{tier=\"dram\",op=\"get\"}", 3}};
  EXPECT_EQ(MetricValuesOf(TwoKinds{}), expected);
}

}  // namespace
}  // namespace quire
