// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/head/head_selection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <set>
#include <vector>

#include "common/base/random.h"

namespace quire::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr float kNoNumber = NAN;

// Four query heads over three places.
const std::vector<float> kFourHeads = {.1f, .2f, .7f,   // head 0
                                       .5f, .3f, .2f,   // head 1
                                       .0f, .9f, .1f,   // head 2
                                       .4f, .1f, .5f};  // head 3

TEST(HeadSelectionTest, MhaKeepsEveryHead) {
  EXPECT_EQ(GroupWeights(kFourHeads, 4, 4, 4), kFourHeads);
}

TEST(HeadSelectionTest, GqaTakesTheMaximumOverTheHeadsOfAGroup) {
  EXPECT_THAT(GroupWeights(kFourHeads, 4, 2, 2), ElementsAre(.5f, .3f, .7f, .4f, .9f, .5f));
}

TEST(HeadSelectionTest, MqaIsOneGroupOfAllHeads) {
  EXPECT_THAT(GroupWeights(kFourHeads, 4, 1, 1), ElementsAre(.5f, .9f, .7f));
}

TEST(HeadSelectionTest, OtherHeadsAreMergedRepeatedOrMadeOne) {
  EXPECT_THAT(GroupWeights(kFourHeads, 4, 4, 2), ElementsAre(.5f, .3f, .7f, .4f, .9f, .5f))
      << "four KV heads of the draft for two of the model";
  EXPECT_THAT(GroupWeights(kFourHeads, 4, 1, 2), ElementsAre(.5f, .9f, .7f, .5f, .9f, .7f))
      << "one KV head of the draft for two";
  EXPECT_THAT(GroupWeights(kFourHeads, 4, 2, 3),
              ElementsAre(.5f, .9f, .7f, .5f, .9f, .7f, .5f, .9f, .7f))
      << "neither number divides the other";
}

TEST(HeadSelectionTest, SinksAndWindowAreTakenAndTheRestByWeight) {
  const std::vector<float> weights = {0, .1f, .9f, .3f, .8f, .2f, 0, 0};
  EXPECT_THAT(SelectPlaces(weights, {.budget = 5, .sinks = 1, .window = 2}),
              ElementsAre(0, 2, 4, 6, 7));
  EXPECT_THAT(SelectPlaces(weights, {.budget = 8, .sinks = 1, .window = 2}),
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(SelectPlaces(weights, {.budget = 100}), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(SelectPlaces(weights, {.budget = 2, .sinks = 1, .window = 2}), ElementsAre(0, 6, 7));
  EXPECT_THAT(SelectPlaces(weights, {.budget = 0}), IsEmpty());
  EXPECT_THAT(SelectPlaces({}, {.budget = 4, .sinks = 1, .window = 1}), IsEmpty());
  EXPECT_THAT(SelectPlaces(weights, {.budget = 4, .sinks = 6, .window = 6}),
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST(HeadSelectionTest, EqualWeightsGoByPlaceAndWhatIsNoNumberGoesLast) {
  const std::vector<float> weights = {kNoNumber, .5f, kNoNumber, .5f, .5f, 0};
  EXPECT_THAT(SelectPlaces(weights, {.budget = 2}), ElementsAre(1, 3));
  EXPECT_THAT(SelectPlaces(weights, {.budget = 5}), ElementsAre(0, 1, 3, 4, 5));
  EXPECT_THAT(SelectPlaces({weights.data(), 1}, {.budget = 1}), ElementsAre(0));
}

TEST(HeadSelectionTest, APageWeighsAsMuchAsItsHeaviestToken) {
  const std::vector<float> weights = {.1f, .4f, kNoNumber, .2f, .3f};
  EXPECT_THAT(PageWeights(weights, 2), ElementsAre(.4f, .2f, .3f));
}

// Every selected place outweighs every other one, and there are as many as the budget allows.
TEST(HeadSelectionTest, RandomSelectionsHoldTheHeaviestPlaces) {
  constexpr uint64_t kSeed = 11;
  std::cout << "seed " << kSeed << '\n';
  SeededRandom random(kSeed);
  for (int round = 0; round < 300; ++round) {
    std::vector<float> weights(random.Next() % 200);
    for (float& weight : weights) weight = static_cast<float>(random.Next() % 20) / 20;
    const HeadBudget budget = {random.Next() % 220, random.Next() % 8, random.Next() % 30};
    const std::vector<uint32_t> selected = SelectPlaces(weights, budget);
    const std::set<uint32_t> places(selected.begin(), selected.end());
    ASSERT_EQ(places.size(), selected.size());
    const uint64_t fixed = std::min<uint64_t>(weights.size(), budget.sinks + budget.window);
    ASSERT_EQ(selected.size(), std::min<uint64_t>(weights.size(), std::max(fixed, budget.budget)));
    float least = 2;
    for (const uint32_t place : selected) {
      const bool chosen = place >= budget.sinks && place + budget.window < weights.size();
      if (chosen) least = std::min(least, weights[place]);
    }
    for (uint32_t place = 0; place < weights.size(); ++place) {
      if (!places.contains(place)) ASSERT_LE(weights[place], least);
    }
  }
}

}  // namespace
}  // namespace quire::worker
