// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/ingest/split_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace quire::worker {
namespace {

using ::testing::ElementsAre;

StatusOr<uint64_t> Bytes(std::string_view text) { return text.size(); }

std::vector<std::string_view> Split(std::string_view text, uint64_t most) {
  const auto parts = SplitText(text, most, Bytes);
  EXPECT_TRUE(parts.ok()) << parts.status();
  return parts.value_or(std::vector<std::string_view>());
}

TEST(SplitTextTest, PartsEndBehindTheBestEndThatFits) {
  EXPECT_THAT(Split("short", 5), ElementsAre("short"));
  EXPECT_THAT(Split("aa\n\nbb\n\ncc", 8), ElementsAre("aa\n\nbb\n\n", "cc"));
  EXPECT_THAT(Split("aa\n\nbb b\nb\n\ncc", 7), ElementsAre("aa\n\n", "bb b\nb\n", "\ncc"));
  EXPECT_THAT(Split("one two three", 6), ElementsAre("one ", "two ", "three"));
}

TEST(SplitTextTest, WithoutEndsNoCharacterIsCut) {
  std::string text;
  for (int i = 0; i < 9; ++i) text += "\xC3\xA9";
  for (const std::string_view part : Split(text, 5)) {
    EXPECT_EQ(part.size() % 2, 0u);
    EXPECT_LE(part.size(), 5u);
  }
  EXPECT_EQ(SplitText("\xC3\xA9\xC3\xA9", 1, Bytes).status().code(), StatusCode::kInvalidArgument);
}

TEST(SplitTextTest, PartsAreTheWholeText) {
  const std::string text = "a b\nc\n\n\n\nd e f g h i\n j\n\nk";
  for (uint64_t most = 1; most < text.size() + 1; ++most) {
    std::string joined;
    for (const std::string_view part : Split(text, most)) joined += part;
    EXPECT_EQ(joined, text) << most;
  }
}

}  // namespace
}  // namespace quire::worker
