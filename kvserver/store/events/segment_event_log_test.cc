// SPDX-License-Identifier: Apache-2.0
//
// Followers of events: each event once, gaps told, bounds kept.
#include "kvserver/store/events/segment_event_log.h"

#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/kit/fake_clock.h"

namespace quire::kvserver::testing {
namespace {

using ::testing::ElementsAre;

class SegmentEventLogTest : public ::testing::Test {
 protected:
  void Add(uint8_t number, std::string_view tenant = "t") {
    SegmentEvent event{.kind = SegmentEventKind::kStored};
    event.segment.bytes[0] = number;
    log_.Add(tenant, event);
  }
  /// Numbers of the events after `*after`, which moves on; -1 for a gap.
  std::vector<int> Read(uint64_t* after, uint32_t most = 100) {
    const SegmentEvents read = log_.Read({.tenant = "t", .after = *after, .max_events = most});
    std::vector<int> numbers;
    for (const SegmentEvent& event : read.events) {
      const bool gap = event.kind == SegmentEventKind::kGap;
      numbers.push_back(gap ? -1 : event.segment.bytes[0]);
    }
    *after = read.position;
    return numbers;
  }
  uint64_t Now() { return log_.Read({.tenant = "t", .from_now = true}).position; }

  quire::testing::FakeClock clock_;
  SegmentEventLog log_{&clock_, /*first_position=*/1000, /*most_events=*/4};
};

TEST_F(SegmentEventLogTest, AFollowerGetsEveryEventOnceInPagesOfAnySize) {
  uint64_t after = Now();
  for (uint8_t i = 1; i <= 3; ++i) Add(i);
  Add(9, "other");
  EXPECT_THAT(Read(&after, 2), ElementsAre(1, 2));
  EXPECT_THAT(Read(&after, 2), ElementsAre(3));
  EXPECT_THAT(Read(&after), ElementsAre());
  Add(4);
  EXPECT_THAT(Read(&after), ElementsAre(4));
  EXPECT_EQ(after, 1003u);
}

TEST_F(SegmentEventLogTest, ASlowOrNewOrEarlierFollowerIsToldOfAGapAndGoesOn) {
  uint64_t slow = Now();
  for (uint8_t i = 1; i <= 4; ++i) Add(i);
  uint64_t in_time = slow;
  EXPECT_THAT(Read(&in_time), ElementsAre(1, 2, 3, 4)) << "all that the log keeps";
  Add(5);
  EXPECT_THAT(Read(&slow), ElementsAre(-1));
  Add(6);
  EXPECT_THAT(Read(&slow), ElementsAre(6));
  for (uint64_t after : {uint64_t{0}, uint64_t{17}, uint64_t{2000}}) {
    EXPECT_THAT(Read(&after), ElementsAre(-1)) << "new, of an earlier log, of another one";
    EXPECT_THAT(Read(&after), ElementsAre());
  }
}

TEST_F(SegmentEventLogTest, AWaitingFollowerWakesForItsTenantAndWaitsAreBounded) {
  const uint64_t after = Now();
  const TimePoint soon = SystemClock().Now() + std::chrono::seconds(20);
  StatusOr<SegmentEvents> read = SegmentEvents();
  std::thread follower(
      [&] { read = log_.Follow({.tenant = "t", .after = after}, soon, [] { return false; }); });
  Add(1, "other");
  Add(2);
  follower.join();
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->events.size(), 1u);
  EXPECT_EQ(read->events[0].segment.bytes[0], 2);

  std::atomic<bool> stop = false;
  std::atomic<uint32_t> refused = 0;
  std::vector<std::thread> followers;
  for (uint32_t i = 0; i < SegmentEventLog::kMostWaiting + 3; ++i) {
    followers.emplace_back([&] {
      const auto waited = log_.Follow({.tenant = "idle", .from_now = true}, soon,
                                      [&] { return stop.load() || refused.load() >= 3; });
      if (waited.status().code() == StatusCode::kResourceExhausted) ++refused;
    });
  }
  for (std::thread& one : followers) one.join();
  EXPECT_EQ(refused.load(), 3u);
}

}  // namespace
}  // namespace quire::kvserver::testing
