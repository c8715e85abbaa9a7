// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/frames/frame_cuts.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tests/kit/random_bytes.h"

namespace quire {
namespace {

/// A frame with a slice of each size.
Frame FrameOfSlices(const std::vector<size_t>& sizes) {
  Frame frame{.head = "head"};
  frame.priority = Priority::kNormal;
  for (size_t i = 0; i < sizes.size(); ++i) {
    frame.payload.Append(testing::RandomBytes(sizes[i], i));
  }
  return frame;
}

std::vector<std::byte> Joined(const std::vector<Frame>& frames) {
  std::vector<std::byte> bytes;
  for (const Frame& frame : frames) {
    for (const Slice& slice : frame.payload.slices()) {
      bytes.insert(bytes.end(), slice.bytes.begin(), slice.bytes.end());
    }
  }
  return bytes;
}

TEST(CutFrameTest, AFrameWithinTheBoundsStaysAsItIs) {
  const auto cut = CutFrame(FrameOfSlices({30, 40, 30}), {.slices = 3, .bytes = 100});
  ASSERT_EQ(cut.size(), 1u);
  EXPECT_EQ(cut[0].head, "head");
  const auto empty = CutFrame({.head = "nothing else"}, {.slices = 1, .bytes = 1});
  ASSERT_EQ(empty.size(), 1u);
  EXPECT_EQ(empty[0].head, "nothing else");
}

TEST(CutFrameTest, WhatIsCutIsWithinTheBoundsAndInOrderAndTheLastHasTheHead) {
  constexpr CutBounds kBounds = {.slices = 3, .packed_bytes = 60, .bytes = 100};
  const std::vector<size_t> sizes = {1, 99, 250, 1, 1, 1, 1, 500, 20, 20, 20, 20, 20, 100};
  const Frame whole = FrameOfSlices(sizes);
  const auto cut = CutFrame(whole, kBounds);
  for (const Frame& frame : cut) {
    const bool is_last = &frame == &cut.back();
    EXPECT_TRUE(kBounds.Hold(frame.payload));
    EXPECT_GE(frame.payload.size_bytes(), is_last ? 1u : 60u);
    EXPECT_EQ(frame.priority, Priority::kNormal);
    EXPECT_EQ(frame.head, is_last ? "head" : "");
  }
  EXPECT_GT(cut.size(), sizes.size() / 3);
  EXPECT_EQ(Joined(cut), Joined({whole}));
}

TEST(CutFrameTest, ManySmallSlicesGoTogether) {
  const auto cut = CutFrame(FrameOfSlices(std::vector<size_t>(100, 6)),
                            {.slices = 3, .packed_bytes = 60, .bytes = 1000});
  ASSERT_EQ(cut.size(), 10u);
  for (const Frame& frame : cut) EXPECT_EQ(frame.payload.slices().size(), 10u);
}

TEST(CutFrameTest, EveryPieceHoldsTheOwnersOfItsBytes) {
  Frame frame{.head = "head"};
  auto owner = std::make_shared<const std::vector<std::byte>>(300);
  const std::weak_ptr<const void> held = owner;
  frame.payload.Append(Slice{*owner, std::move(owner)});
  auto cut = CutFrame(std::move(frame), {.slices = 1, .bytes = 100});
  ASSERT_EQ(cut.size(), 3u);
  cut.erase(cut.begin(), cut.begin() + 2);
  EXPECT_FALSE(held.expired());
  cut.clear();
  EXPECT_TRUE(held.expired());
}

}  // namespace
}  // namespace quire
