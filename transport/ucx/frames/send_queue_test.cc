// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/frames/send_queue.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace quire {
namespace {

constexpr uint64_t kUnit = 100;

/// A frame of `priority` with a unit for each of `places`.
Frame FrameFor(std::string head, Priority priority, std::vector<uint64_t> places,
               uint64_t landing = 1) {
  Frame frame{.head = std::move(head), .landing = landing, .places = std::move(places)};
  frame.priority = priority;
  for (size_t i = 0; i < frame.places.size(); ++i) {
    frame.payload.Append(std::vector<std::byte>(kUnit));
  }
  return frame;
}

class SendQueueTest : public ::testing::Test {
 protected:
  void Push(std::string head, Priority priority, uint64_t bytes = 1,
            std::vector<uint64_t> places = {}, uint64_t landing = 1) {
    Frame frame = FrameFor(std::move(head), priority, std::move(places), landing);
    FrameRanges ranges(frame);
    queue_.Push({.frame = std::move(frame), .ranges = std::move(ranges), .bytes = bytes});
  }
  /// The heads of the frames that may be handed over now.
  std::string Give() {
    std::string heads;
    while (queue_.HasNext()) heads += queue_.Pop().frame.head;
    return heads;
  }

  SendQueue queue_{10};
};

TEST_F(SendQueueTest, TheMostUrgentGoesFirstAndThenTheOldest) {
  Push("a", Priority::kPrefetch);
  Push("b", Priority::kNormal);
  Push("c", Priority::kCorrection);
  Push("d", Priority::kPrefetch);
  Push("e", Priority::kCorrection);
  EXPECT_EQ(Give(), "cebad");
  EXPECT_TRUE(queue_.empty());
}

TEST_F(SendQueueTest, WhatIsGivenHoldsBackWhatIsNotMoreUrgent) {
  for (const char* head : {"a", "b", "c"}) Push(head, Priority::kPrefetch, 5);
  EXPECT_EQ(Give(), "ab");
  Push("d", Priority::kNormal, 20);
  Push("e", Priority::kNormal, 1);
  EXPECT_EQ(Give(), "d") << "one goes, however large";
  Push("f", Priority::kCorrection, 9);
  Push("g", Priority::kCorrection, 1);
  Push("h", Priority::kCorrection, 1);
  EXPECT_EQ(Give(), "fg");
  queue_.Done(Priority::kPrefetch, 10);
  EXPECT_EQ(Give(), "") << "more urgent ones are given";
  queue_.Done(Priority::kNormal, 20);
  queue_.Done(Priority::kCorrection, 10);
  EXPECT_EQ(Give(), "hec");
}

TEST_F(SendQueueTest, WhatMustGoIsGivenOverTheBound) {
  Push("a", Priority::kPrefetch, 10);
  Push("b", Priority::kPrefetch, 10);
  EXPECT_EQ(Give(), "a");
  EXPECT_FALSE(queue_.HasNext());
  const SendQueue::Item item = queue_.Pop();
  EXPECT_EQ(item.frame.head, "b");
  EXPECT_EQ(item.bytes, 10u);
  EXPECT_TRUE(queue_.empty());
}

TEST_F(SendQueueTest, FramesWithAPlaceInCommonKeepTheirOrder) {
  Push("a", Priority::kPrefetch, 1, {0, 1000});
  Push("b", Priority::kPrefetch, 1, {200, 500});
  Push("c", Priority::kPrefetch, 1, {3000});
  Push("d", Priority::kCorrection, 1, {1100, 600, 400, 100});
  EXPECT_EQ(Give(), "dabc") << "they touch, and have nothing in common";
  queue_.Done(Priority::kPrefetch, 3);
  queue_.Done(Priority::kCorrection, 1);
  Push("a", Priority::kPrefetch, 1, {0, 1000});
  Push("b", Priority::kPrefetch, 1, {200, 500});
  Push("c", Priority::kPrefetch, 1, {3000});
  Push("d", Priority::kCorrection, 1, {500}, /*landing=*/2);
  Push("e", Priority::kCorrection, 1, {7000, 599});
  EXPECT_EQ(Give(), "abdec") << "those before the one that it waits for go before that";
}

TEST_F(SendQueueTest, WhatWaitsBehindAnUrgentFrameIsKnownAndForgotten) {
  Push("a", Priority::kPrefetch, 3);
  Push("b", Priority::kNormal, 4);
  Push("c", Priority::kCorrection, 5);
  EXPECT_EQ(queue_.BytesBehind(Priority::kPrefetch), 0u);
  EXPECT_EQ(queue_.BytesBehind(Priority::kNormal), 3u);
  EXPECT_EQ(queue_.BytesBehind(Priority::kCorrection), 7u);
  EXPECT_EQ(queue_.Pop().frame.head, "c");
  EXPECT_EQ(queue_.Pop().frame.head, "b");
  EXPECT_EQ(queue_.BytesBehind(Priority::kCorrection), 3u);
  queue_.Clear();
  EXPECT_TRUE(queue_.empty());
  EXPECT_EQ(queue_.BytesBehind(Priority::kCorrection), 0u);
  queue_.Done(Priority::kCorrection, 5);
  queue_.Done(Priority::kNormal, 4);
  Push("d", Priority::kPrefetch, 10);
  EXPECT_EQ(Give(), "d") << "nothing is given any more";
}

TEST(FrameRangesTest, OnlyTheSameBytesOfTheSameLandingOverlap) {
  const auto ranges = [](std::vector<uint64_t> places, uint64_t landing = 1) {
    return FrameRanges(FrameFor("", Priority::kPrefetch, std::move(places), landing));
  };
  const FrameRanges some = ranges({900, 300, 500, 100});
  EXPECT_FALSE(some.Overlap(ranges({0, 200, 400, 600, 800, 1000})));
  EXPECT_FALSE(some.Overlap(ranges({100, 300, 500}, /*landing=*/2)));
  EXPECT_FALSE(some.Overlap(FrameRanges()));
  for (const uint64_t place : {1, 100, 199, 201, 399, 401, 599, 801, 999}) {
    EXPECT_TRUE(some.Overlap(ranges({2000, place}))) << place;
  }
}

}  // namespace
}  // namespace quire
