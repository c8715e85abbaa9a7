// SPDX-License-Identifier: Apache-2.0
#include "common/base/observe/health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/kit/fake_clock.h"

namespace quire {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class HealthTest : public ::testing::Test {
 protected:
  static std::string Text(const Health::Line& line) {
    std::string text(Name(line.trouble));
    if (line.is_over) text += " over";
    text += ": " + line.detail;
    if (line.left_out > 0) text += " +" + std::to_string(line.left_out);
    return text;
  }
  std::vector<std::string> Take() { return std::exchange(lines_, {}); }
  uint64_t Count(const std::string& series) { return MetricValuesOf(health_)[series]; }

  testing::FakeClock clock_;
  std::vector<std::string> lines_;
  Health health_{&clock_, [this](const Health::Line& line) { lines_.push_back(Text(line)); }};
};

TEST_F(HealthTest, WhatIsRaisedDegradesUntilItIsCleared) {
  EXPECT_THAT(health_.Degradations(), IsEmpty());
  const int64_t begin = clock_.UnixMicros();
  health_.Raise(Trouble::kDiskFull, "no room");
  clock_.Advance(std::chrono::seconds(3));
  health_.Raise(Trouble::kDiskFull, "still none");
  ASSERT_EQ(health_.Degradations().size(), 1u);
  EXPECT_EQ(health_.Degradations()[0].trouble, Trouble::kDiskFull);
  EXPECT_EQ(health_.Degradations()[0].detail, "still none");
  EXPECT_EQ(health_.Degradations()[0].since_unix_micros, begin);
  EXPECT_EQ(Count("degraded{reason=\"disk_full\"}"), 1u);
  EXPECT_EQ(Count("troubles{reason=\"disk_full\"}"), 2u);
  health_.Clear(Trouble::kDiskFull);
  health_.Clear(Trouble::kDiskFull);
  EXPECT_THAT(health_.Degradations(), IsEmpty());
  EXPECT_EQ(Count("degraded{reason=\"disk_full\"}"), 0u);
  EXPECT_EQ(Count("troubles{reason=\"disk_full\"}"), 2u);
}

TEST_F(HealthTest, ATroubleThatComesAndGoesIsOverAfterAQuietTime) {
  RecurringTrouble reads(&health_, Trouble::kReadFailed, &clock_, std::chrono::seconds(60));
  reads.Succeeded();
  EXPECT_THAT(Take(), IsEmpty());
  reads.Failed("a bad place");
  clock_.Advance(std::chrono::seconds(59));
  reads.Succeeded();
  EXPECT_TRUE(health_.IsRaised(Trouble::kReadFailed)) << "other places are read meanwhile";
  reads.Failed("another");
  clock_.Advance(std::chrono::seconds(59));
  reads.Succeeded();
  EXPECT_TRUE(health_.IsRaised(Trouble::kReadFailed)) << "counted from the last failure";
  clock_.Advance(std::chrono::seconds(1));
  EXPECT_TRUE(health_.IsRaised(Trouble::kReadFailed)) << "nothing says that reads work";
  reads.Succeeded();
  EXPECT_FALSE(health_.IsRaised(Trouble::kReadFailed));
  EXPECT_THAT(Take(), ElementsAre("read_failed: a bad place", "read_failed: another",
                                  "read_failed over: another"));
  EXPECT_EQ(Count("troubles{reason=\"read_failed\"}"), 2u);
  RecurringTrouble untold(nullptr, Trouble::kReadFailed, &clock_, Duration::zero());
  untold.Failed("without a board");
  untold.Succeeded();
}

TEST_F(HealthTest, WhatIsNotedIsCountedAndDegradesNothing) {
  health_.Note(Trouble::kOverQuota, "team-a");
  EXPECT_THAT(health_.Degradations(), IsEmpty());
  EXPECT_EQ(Count("troubles{reason=\"over_quota\"}"), 1u);
  EXPECT_THAT(Take(), ElementsAre("over_quota: team-a"));
}

// Promise 6: nothing is unbounded, including the log.
TEST_F(HealthTest, Promise6OneLineForAReasonAndIntervalSaysHowManyWereLeftOut) {
  for (int i = 0; i < 100; ++i) health_.Note(Trouble::kCallRefused, "a");
  health_.Note(Trouble::kOverQuota, "b");
  EXPECT_THAT(Take(), ElementsAre("call_refused: a", "over_quota: b"));
  clock_.Advance(Health::kLineInterval);
  health_.Note(Trouble::kCallRefused, std::string(10'000, 'c'));
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_EQ(Take()[0], "call_refused: " + std::string(1024, 'c') + " +99");
  clock_.Advance(Health::kLineInterval);
  health_.Note(Trouble::kCallRefused, "d");
  EXPECT_THAT(Take(), ElementsAre("call_refused: d"));
}

TEST_F(HealthTest, ADetailIsOneLineOfAsciiWhateverItWasMadeOf) {
  health_.Raise(Trouble::kDataDamaged, "a\nb\xff\xc3\xa9");
  EXPECT_EQ(health_.Degradations()[0].detail, "a b???");
  EXPECT_THAT(Take(), ElementsAre("data_damaged: a b???"));
}

TEST_F(HealthTest, ThatItIsOverIsSaidAlthoughItWasRaisedMoreThanOnce) {
  health_.Raise(Trouble::kDeviceStalled, "a read");
  health_.Raise(Trouble::kDeviceStalled, "two reads");
  health_.Clear(Trouble::kDeviceStalled);
  EXPECT_THAT(Take(), ElementsAre("device_stalled: a read", "device_stalled over: two reads +1"));
}

TEST_F(HealthTest, ThatItIsOverIsSaidAndFlutteringIsNot) {
  health_.Raise(Trouble::kDeviceStalled, "a read");
  health_.Clear(Trouble::kDeviceStalled);
  EXPECT_THAT(Take(), ElementsAre("device_stalled: a read", "device_stalled over: a read"));
  for (int i = 0; i < 50; ++i) {
    health_.Raise(Trouble::kDeviceStalled, "a read");
    health_.Clear(Trouble::kDeviceStalled);
  }
  EXPECT_THAT(Take(), IsEmpty());
  clock_.Advance(Health::kLineInterval);
  health_.Raise(Trouble::kDeviceStalled, "a write");
  EXPECT_THAT(Take(), ElementsAre("device_stalled: a write +100"));
}

}  // namespace
}  // namespace quire
