// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/context/prompt_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "gpuworker/context/compact_plan.h"
#include "gpuworker/context/reuse_strict.h"

namespace quire::worker {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kMostPositions = 100;

TEST(PromptLayoutTest, DocumentsFollowOneAnotherAndTheirKeysMove) {
  const auto layout = LayOutPrompt(std::vector<StoredSource>{{.tokens = 10}, {.tokens = 20}}, 5, {},
                                   kMostPositions);
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->sources[0].move, 0);
  EXPECT_EQ(layout->sources[1].first, 10u);
  EXPECT_EQ(layout->sources[1].move, 10);
  EXPECT_EQ(layout->question_first, 30u);
  EXPECT_EQ(layout->tokens(), 35u);
}

TEST(PromptLayoutTest, TheFirstDocumentAloneKeepsItsBeginningToken) {
  const auto layout = LayOutPrompt(std::vector<StoredSource>{{.tokens = 10, .has_bos = true},
                                                             {.tokens = 20, .has_bos = true},
                                                             {.tokens = 5},
                                                             {.tokens = 1, .has_bos = true}},
                                   5, {}, kMostPositions);
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->sources[0].skipped, 0u);
  EXPECT_EQ(layout->sources[1].skipped, 1u);
  EXPECT_EQ(layout->sources[1].tokens, 19u);
  EXPECT_EQ(layout->sources[1].move, 9) << "its second token comes to position 10";
  EXPECT_EQ(layout->sources[2].skipped, 0u);
  EXPECT_EQ(layout->sources[2].first, 29u);
  EXPECT_EQ(layout->sources[3].tokens, 0u);
  EXPECT_EQ(layout->question_first, 34u);
}

TEST(PromptLayoutTest, ARotationThatDependsOnTheLengthAllowsNoMove) {
  const RopeSpec dynamic{.scaling = RopeScaling::kDynamic};
  const std::vector<StoredSource> one = {{.tokens = 10}};
  EXPECT_TRUE(LayOutPrompt(one, 5, dynamic, kMostPositions).ok());
  const Status two = LayOutPrompt(std::vector<StoredSource>{{.tokens = 10}, {.tokens = 20}}, 5,
                                  dynamic, kMostPositions)
                         .status();
  EXPECT_EQ(two.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(two.message()), HasSubstr("document 2 has to move by 10 positions"));
}

TEST(PromptLayoutTest, SuchARotationAllowsNoCompactPromptEither) {
  const PromptLayout layout =
      LayOutPrompt(std::vector<StoredSource>{{.tokens = 10}}, 5, {}, kMostPositions).value();
  ReusePlan plan = ReuseStrict(layout, 2);
  const auto refused = Compact(layout, {.scaling = RopeScaling::kDynamic}, &plan);
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("keep their positions"));
  EXPECT_EQ(Compact(layout, {}, &plan)->tokens, 15u);
}

TEST(PromptLayoutTest, APromptThatIsTooLongSaysByHowMuch) {
  const Status status =
      LayOutPrompt(std::vector<StoredSource>{{.tokens = 98}}, 5, {}, kMostPositions).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("3 more than the model's context of 100"));
}

}  // namespace
}  // namespace quire::worker
