// SPDX-License-Identifier: Apache-2.0
#include "apps/quired/status/status_history.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/kit/fake_clock.h"

namespace quire::kvserver {
namespace {

class StatusHistoryTest : public ::testing::Test {
 protected:
  /// A value of the row that is `back` steps old, in the steps after `after`.
  int64_t Of(const std::string& column, size_t back = 0, uint64_t after = 0) const {
    const nlohmann::json steps = history_.After(after);
    const auto columns = steps["columns"].get<std::vector<std::string>>();
    const auto at =
        static_cast<size_t>(std::find(columns.begin(), columns.end(), column) - columns.begin());
    return steps["rows"].at(steps["rows"].size() - 1 - back).at(at).get<int64_t>();
  }
  size_t Rows(uint64_t after) const { return history_.After(after)["rows"].size(); }

  quire::testing::FakeClock clock_;
  uint64_t hits_ = 1000;
  LatencyHistogram recalls_, other_calls_;
  StatusHistory history_{[this](MetricsVisitor& visit) {
                           visit.Counter("dram_unit_hits", "Hits.", hits_);
                           visit.Gauge("admission_running", "Run.", 2, {{"door", "read"}});
                           visit.Gauge("admission_running", "Run.", 3, {{"door", "write"}});
                           visit.Histogram("call_seconds", "Calls.", recalls_,
                                           {{"method", "quire.v1.Session/Recall"}});
                           visit.Histogram("call_seconds", "Calls.", other_calls_,
                                           {{"method", "quire.v1.Store/Seal"}});
                         },
                         &clock_};
};

TEST_F(StatusHistoryTest, AStepHasWhatHappenedInIt) {
  history_.Step();
  EXPECT_EQ(Rows(0), 0u) << "what was before is no step";
  hits_ += 7;
  recalls_.Record(std::chrono::milliseconds(1));
  other_calls_.Record(std::chrono::seconds(9));
  history_.Step();
  EXPECT_EQ(Of("dram_hits"), 7);
  EXPECT_EQ(Of("running"), 5) << "all doors";
  EXPECT_NEAR(static_cast<double>(Of("recall_p99")), 1000, 130);
  recalls_.Record(std::chrono::milliseconds(8));
  history_.Step();
  EXPECT_EQ(Of("dram_hits"), 0);
  EXPECT_EQ(Of("dram_hits", 1), 7);
  EXPECT_NEAR(static_cast<double>(Of("recall_p50")), 8000, 1000) << "of this step alone";
}

TEST_F(StatusHistoryTest, AReaderGetsWhatItLacksAndAnHourAtMost) {
  for (size_t i = 0; i < StatusHistory::kSteps + 100; ++i) history_.Step();
  const uint64_t last = history_.After(0)["last"].get<uint64_t>();
  EXPECT_EQ(last, StatusHistory::kSteps + 99);
  EXPECT_EQ(Rows(0), StatusHistory::kSteps);
  EXPECT_EQ(Rows(last - 3), 3u);
  EXPECT_EQ(Rows(last), 0u);
  EXPECT_EQ(Rows(last + 1), StatusHistory::kSteps) << "from before a restart";
}

}  // namespace
}  // namespace quire::kvserver
