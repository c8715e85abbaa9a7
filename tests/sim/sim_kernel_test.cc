// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/sim/sim_network.h"
#include "tests/sim/sim_scheduler.h"

namespace quire::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;

constexpr TimePoint kEnd = TimePoint(std::chrono::hours(1));

TEST(SimSchedulerTest, TasksGoOnInTheOrderOfTime) {
  SimScheduler scheduler(1);
  std::vector<std::string> seen;
  scheduler.Start([&] {
    seen.push_back("a0");
    scheduler.Sleep(milliseconds(20));
    seen.push_back("a20");
  });
  scheduler.Start(
      [&] {
        seen.push_back("b10");
        scheduler.Sleep(milliseconds(20));
        seen.push_back("b30");
      },
      milliseconds(10));
  scheduler.RunUntil(kEnd);
  EXPECT_THAT(seen, ElementsAre("a0", "b10", "a20", "b30"));
  EXPECT_EQ(scheduler.Now(), kEnd);
  EXPECT_EQ(scheduler.num_tasks(), 0u);
}

/// The order of four tasks that all begin at once.
std::string OrderOf(uint64_t seed) {
  SimScheduler scheduler(seed);
  std::string order;
  for (const char name : {'a', 'b', 'c', 'd'}) {
    scheduler.Start([&order, name] { order.push_back(name); });
  }
  scheduler.RunUntil(kEnd);
  return order;
}

TEST(SimSchedulerTest, TheSeedDecidesTheOrderOfOneMoment) {
  EXPECT_EQ(OrderOf(7), OrderOf(7));
  bool differs = false;
  for (uint64_t seed = 1; seed < 10; ++seed) differs = differs || OrderOf(seed) != OrderOf(7);
  EXPECT_TRUE(differs);
}

TEST(SimSchedulerTest, AWaitEndsWhenItIsWokenOrAtItsDeadline) {
  SimScheduler scheduler(1);
  SimScheduler::Task* sleeper = nullptr;
  std::vector<bool> woken;
  scheduler.Start([&] {
    sleeper = scheduler.Current();
    woken.push_back(scheduler.WaitUntil(scheduler.Now() + seconds(10)));
    woken.push_back(scheduler.WaitUntil(scheduler.Now() + seconds(1)));
  });
  scheduler.Start([&] { scheduler.Wake(sleeper); }, seconds(2));
  scheduler.RunUntil(kEnd);
  EXPECT_THAT(woken, ElementsAre(true, false));
}

class SimNetworkTest : public ::testing::Test {
 protected:
  SimNetworkTest() {
    network_.Up("a");
    network_.Up("b");
  }
  /// One call from a to b that counts how often it was carried out.
  StatusOr<int> Call() {
    StatusOr<int> result = Internal("it did not run");
    scheduler_.Start([&] {
      result = network_.Call<int>("a", "b", {}, [this] { return StatusOr<int>(++calls_); });
    });
    scheduler_.RunUntil(scheduler_.Now() + seconds(5));
    return result;
  }
  SimScheduler scheduler_{5};
  SimNetwork network_{&scheduler_};
  int calls_ = 0;
};

TEST_F(SimNetworkTest, ACallIsCarriedOutAndAnswered) {
  const auto result = Call();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(*result, 1);
}

TEST_F(SimNetworkTest, ALostReplyMeansThatItWasCarriedOutAllTheSame) {
  network_.Cut("b", "a");
  EXPECT_TRUE(IsUnavailable(Call().status()));
  EXPECT_EQ(calls_, 1);
  network_.Cut("a", "b");
  EXPECT_TRUE(IsUnavailable(Call().status()));
  EXPECT_EQ(calls_, 1);
  network_.Heal();
  EXPECT_TRUE(Call().ok());
}

TEST_F(SimNetworkTest, ADuplicateIsCarriedOutTwiceAndAnsweredOnce) {
  network_.quality().duplicate = 1;
  EXPECT_TRUE(Call().ok());
  EXPECT_EQ(calls_, 2);
}

TEST_F(SimNetworkTest, AProcessThatHasEndedAnswersNothing) {
  network_.Down("b");
  EXPECT_TRUE(IsUnavailable(Call().status()));
  EXPECT_EQ(calls_, 0);
  network_.Up("b");
  EXPECT_TRUE(Call().ok());
}

}  // namespace
}  // namespace quire::sim
