// SPDX-License-Identifier: Apache-2.0
#include "common/base/threads/stop_signals.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <latch>
#include <thread>

namespace quire {
namespace {

TEST(StopSignalsTest, ASignalThatCameBeforeTheWaitIsKept) {
  const auto stop = StopSignals::Install();
  ASSERT_TRUE(stop.ok()) << stop.status();
  EXPECT_FALSE((*stop)->HasArrived());
  raise(SIGTERM);
  EXPECT_TRUE((*stop)->HasArrived());
  EXPECT_EQ((*stop)->Wait(), SIGTERM);
  EXPECT_FALSE((*stop)->HasArrived());
  raise(SIGINT);
  EXPECT_EQ((*stop)->Wait(), SIGINT);
}

TEST(StopSignalsTest, ASignalDeliveredToAThreadOfALibraryIsKeptToo) {
  std::latch installed(1);
  std::latch signalled(1);
  std::thread library([&] {  // Started before Install, like the threads of libraries.
    installed.wait();
    pthread_kill(pthread_self(), SIGINT);
    signalled.count_down();
  });
  const auto stop = StopSignals::Install();
  ASSERT_TRUE(stop.ok()) << stop.status();
  installed.count_down();
  signalled.wait();
  EXPECT_EQ((*stop)->Wait(), SIGINT);
  library.join();
}

TEST(StopSignalsTest, ThereIsOneAtATime) {
  auto first = StopSignals::Install();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(IsFailedPrecondition(StopSignals::Install().status()));
  first->reset();
  EXPECT_TRUE(StopSignals::Install().ok());
}

}  // namespace
}  // namespace quire
