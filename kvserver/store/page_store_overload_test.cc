// SPDX-License-Identifier: Apache-2.0
//
// PageStore on a hanging payload device: it slows the calls that need it, and no others. Also where
// the time of each operation is counted.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "common/base/retry_hint.h"
#include "kvserver/store/testing/faulty_store_fixture.h"
#include "tests/kit/look_again.h"

namespace quire::kvserver::testing {
namespace {

using Kind = IoRequest::Kind;

constexpr uint32_t kInside = 3, kWaiting = 2;

class PageStoreOverloadTest : public FaultyStoreTest {
 protected:
  void SetUp() override {
    options_.tenants = {"default", "other"};
    options_.promote_after_touches = 1000;
    options_.ssd_gate = {.max_inside = kInside,
                         .max_waiting = kWaiting,
                         .max_inside_per_tenant = 2,
                         .max_waiting_per_tenant = 1,
                         .max_wait = std::chrono::minutes(5)};
    Open();
  }
  /// Puts two segments of each tenant: one that is not in DRAM, and one that is.
  void PutColdAndHot() {
    for (const std::string& tenant : options_.tenants) Put(tenant, 1, &cold_);
    Open();
    for (const std::string& tenant : options_.tenants) Put(tenant, 2, &hot_);
  }
  void Put(const std::string& tenant, uint64_t seed, std::map<std::string, SegmentKey>* keys) {
    const auto segment =
        PutTestSegment(*store_, spec_, seed, kRootKey, 0, Durability::kMemory, tenant);
    ASSERT_TRUE(segment.ok()) << segment.status();
    (*keys)[tenant] = segment->key;
  }
  Status ReadOne(const std::string& tenant, const SegmentKey& key) {
    const UnitAddress unit{.segment = key, .layer = 0, .unit = 0};
    std::vector<UnitBytes> out;
    return store_->ReadUnits(tenant, {&unit, 1}, &out);
  }

  std::map<std::string, SegmentKey> cold_, hot_;
};

TEST_F(PageStoreOverloadTest, ADeviceThatHangsKeepsNobodyFromDram) {
  PutColdAndHot();
  for (uint32_t i = 0; i < kInside; ++i) engine_.Inject(Kind::kRead, IoFault::kPause);
  std::vector<std::thread> readers;
  std::atomic<int> refused{0}, finished{0};
  for (int i = 0; i < 12; ++i) {
    readers.emplace_back([&, tenant = options_.tenants[i % 2]] {
      Status status;
      do {
        status = ReadOne(tenant, cold_[tenant]);
        if (RetryAfter(status)) ++refused;
      } while (RetryAfter(status));
      EXPECT_TRUE(status.ok()) << status;
      ++finished;
    });
  }
  engine_.AwaitPaused(kInside);
  while (Count("ssd_gate_waiting") < kWaiting) quire::testing::WaitToLookAgain();
  const int refused_before = refused;
  while (refused == refused_before) quire::testing::WaitToLookAgain();
  for (const std::string& tenant : options_.tenants) {
    for (int i = 0; i < 100; ++i) EXPECT_EQ(ReadOne(tenant, hot_[tenant]), OkStatus());
  }
  EXPECT_EQ(Count("ssd_gate_inside"), kInside);
  EXPECT_EQ(Count("ssd_gate_waiting"), kWaiting);
  EXPECT_EQ(finished, 0);
  engine_.Resume();
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(finished, 12);
  EXPECT_EQ(Count("ssd_gate_inside"), 0u);
  EXPECT_EQ(Count("ssd_gate_waiting"), 0u);
}

/// Number of timings of each operation.
class OperationCounts final : public MetricsVisitor {
 public:
  uint64_t Of(const std::string& tier_and_op) const { return counts_.at(tier_and_op); }

 protected:
  void OnValue(const Metric&, uint64_t) override {}
  void OnHistogram(const Metric& metric, const LatencyHistogram::Snapshot& snapshot) override {
    const std::string tier(metric.labels[0].value), op(metric.labels[1].value);
    counts_[tier + " " + op] = snapshot.count();
  }

 private:
  std::map<std::string, uint64_t> counts_;
};

TEST_F(PageStoreOverloadTest, EveryOperationIsTimedWhereItHappens) {
  options_.promote_after_touches = 2;
  PutColdAndHot();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ReadOne("default", cold_["default"]), OkStatus());
  EXPECT_EQ(ReadOne("default", hot_["default"]), OkStatus());
  EXPECT_TRUE(store_->ReadDigests("default", hot_["default"], 0).ok());
  EXPECT_EQ(store_->DeleteSegment("other", hot_["other"]), OkStatus());
  OperationCounts counts;
  store_->VisitMetrics(counts);
  EXPECT_EQ(counts.Of("store put"), 2u);
  EXPECT_EQ(counts.Of("store digests"), 1u);
  EXPECT_EQ(counts.Of("store delete"), 1u);
  EXPECT_EQ(counts.Of("dram put"), 2u);
  EXPECT_EQ(counts.Of("dram read"), 2u) << "the hot one, and the cold one once it was promoted";
  EXPECT_EQ(counts.Of("ssd read"), 2u);
  EXPECT_EQ(counts.Of("ssd promote"), 1u);
  EXPECT_EQ(counts.Of("ssd write"), 2u);
  EXPECT_EQ(counts.Of("metadata commit"), 3u) << "two puts and a delete";
  EXPECT_EQ(counts.Of("device read"), 3u) << "two of units, and one of digests";
  EXPECT_EQ(counts.Of("device write"), 2u);
  EXPECT_EQ(counts.Of("device sync"), 0u) << "nothing was asked to be persisted";
}

}  // namespace
}  // namespace quire::kvserver::testing
