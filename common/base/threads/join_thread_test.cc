// SPDX-License-Identifier: Apache-2.0
#include "common/base/threads/join_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <memory>
#include <thread>

namespace quire {
namespace {

/// A thread that joins itself, and then takes its time to end.
void StartOneThatJoinsItself(std::atomic<int>* ended) {
  auto self = std::make_shared<std::promise<std::thread>>();
  std::thread thread([self, ended] {
    std::thread me = self->get_future().get();
    JoinThread(me);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ++*ended;
  });
  self->set_value(std::move(thread));
}

TEST(JoinThreadTest, WaitsForAnotherThread) {
  bool ran = false;
  std::thread thread([&] { ran = true; });
  JoinThread(thread);
  EXPECT_TRUE(ran);
}

TEST(JoinThreadTest, AThreadMayJoinItselfWhileOthersDo) {
  static std::atomic<int> ended{0};
  for (int i = 0; i < 20; ++i) StartOneThatJoinsItself(&ended);
  while (ended.load() < 20) std::this_thread::yield();
}

TEST(JoinThreadDeathTest, ExitWaitsForThreadsThatJoinedThemselves) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        static std::promise<void> joined;
        std::promise<std::thread> self;
        std::thread thread([&] {
          std::thread me = self.get_future().get();
          JoinThread(me);
          joined.set_value();
          std::this_thread::sleep_for(std::chrono::milliseconds(200));
          std::_Exit(7);  // Reached only if exit waits.
        });
        self.set_value(std::move(thread));
        joined.get_future().wait();
        std::exit(1);
      },
      ::testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace quire
