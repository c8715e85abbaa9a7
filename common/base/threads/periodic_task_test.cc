// SPDX-License-Identifier: Apache-2.0
#include "common/base/threads/periodic_task.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

/// Counts runs and lets a test wait for them.
class Runs {
 public:
  void Add() {
    MutexLock lock(mutex_);
    ++count_;
    more_.NotifyAll();
  }
  void WaitFor(int count) {
    MutexLock lock(mutex_);
    while (count_ < count) more_.Wait(mutex_);
  }
  int count() {
    MutexLock lock(mutex_);
    return count_;
  }

 private:
  Mutex mutex_;
  CondVar more_;
  int count_ QUIRE_GUARDED_BY(mutex_) = 0;
};

TEST(PeriodicTaskTest, RunsAtOnceAndAgainUntilItGoes) {
  Runs runs;
  {
    const PeriodicTask task(std::chrono::microseconds(100), [&] { runs.Add(); });
    runs.WaitFor(4);
  }
  const int last = runs.count();
  EXPECT_GE(last, 4);
  EXPECT_EQ(runs.count(), last) << "nothing runs after the destructor";
}

TEST(PeriodicTaskTest, RunsBeforeItsTimeWhenItIsTold) {
  Runs runs;
  PeriodicTask task(std::chrono::hours(24), [&] { runs.Add(); });
  for (int count = 1; count <= 3; ++count) {
    runs.WaitFor(count);
    task.RunSoon();
  }
  runs.WaitFor(4);
}

TEST(PeriodicTaskTest, GoesWithoutWaitingOutThePeriod) {
  Runs runs;
  {
    const PeriodicTask task(std::chrono::hours(24), [&] { runs.Add(); });
    runs.WaitFor(1);
  }
  EXPECT_EQ(runs.count(), 1);
}

}  // namespace
}  // namespace quire
