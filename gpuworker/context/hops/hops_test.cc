// SPDX-License-Identifier: Apache-2.0
//
// Hops over digests that are made by hand: keys of one channel.
#include "gpuworker/context/hops/hops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace quire::worker {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Lt;
using ::testing::Not;

constexpr uint32_t kPage = 4;

class HopsTest : public ::testing::Test {
 protected:
  /// Three documents of four pages each, and a question of two tokens. One layer retrieves.
  HopsTest() {
    spec_.num_layers = 2;
    spec_.num_query_heads = 1;
    spec_.num_kv_heads = 1;
    spec_.head_dim = 2;
    spec_.page_tokens = kPage;
    spec_.dtype = DType::kF32;
    spec_.rope.rotary_dim = 0;  // Keys without rotation, but for one test.
    std::vector<StoredSource> sources(3, {.tokens = 4 * kPage});
    auto layout = LayOutPrompt(sources, 2, spec_.rope, 1000);
    EXPECT_TRUE(layout.ok()) << layout.status();
    layout_ = *layout;
  }

  /// Hops of which each page has bounds [0, its height] in both channels.
  Hops WithHeights(const std::vector<float>& heights, HopOptions options) {
    options.layers = {1};
    Hops hops(layout_, spec_, options);
    for (size_t document = 0; document < layout_.sources.size(); ++document) {
      std::vector<float> bounds;
      for (size_t page = 0; page < 4; ++page) {
        const float height = heights[document * 4 + page];
        bounds.insert(bounds.end(), {0, 0, height, height});
      }
      std::vector<std::byte> bytes(bounds.size() * sizeof(float));
      std::memcpy(bytes.data(), bounds.data(), bytes.size());
      hops.AddDigests(std::move(bytes));
    }
    return hops;
  }

  /// Every row that asks in `layer` has the same query.
  static void AskAll(const ReusePlan& plan, uint32_t layer) {
    const std::vector<uint32_t> asking = plan.rows->Asks(layer);
    std::vector<uint64_t> positions;
    for (const uint32_t row : asking) positions.push_back(plan.positions[row]);
    if (positions.empty()) return;
    plan.rows->ReadQueries(layer, positions, std::vector<float>(positions.size() * 2, 5.0f));
  }

  /// Keys that are 0 but for one cell, which draws all attention.
  static std::vector<float> KeysFor(const ViewCells& cells, uint64_t position) {
    std::vector<float> keys;
    for (const uint64_t cell : cells.visible) {
      keys.insert(keys.end(), 2, cell == position ? 10.0f : 0.0f);
    }
    return keys;
  }

  KvSpec spec_;
  PromptLayout layout_;
};

/// Page 6, in the second document, is the best one; 11 comes next.
const std::vector<float> kHeights = {0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 3};

TEST_F(HopsTest, ARowReadsThePagesWithTheBestBoundsInLayersThatRetrieve) {
  Hops hops = WithHeights(kHeights, {.pages = 1, .question_rows = 1});
  const ReusePlan plan = hops.Pass();
  AskAll(plan, 0);
  EXPECT_THAT(hops.Cells(0).visible, ElementsAre(0, 1, 2, 3, 48, 49));
  AskAll(plan, 1);
  EXPECT_THAT(hops.Cells(1).visible, ElementsAre(0, 1, 2, 3, 24, 25, 26, 27, 48, 49));
}

TEST_F(HopsTest, APageThatIsAttendedToIsComputedNextAndAsks) {
  Hops hops = WithHeights(kHeights, {.pages = 1, .question_rows = 1});
  ReusePlan plan = hops.Pass();
  EXPECT_THAT(plan.positions, ElementsAre(48, 49));
  AskAll(plan, 1);
  hops.ReadKeys(1, KeysFor(hops.Cells(1), 25));
  EXPECT_TRUE(hops.EndPass());
  plan = hops.Pass();
  EXPECT_THAT(plan.positions, ElementsAre(24, 25, 26, 27, 48, 49));
  EXPECT_THAT(plan.rows->Asks(1), ElementsAre(1, 5));
  EXPECT_THAT(hops.Cells(0).visible, Contains(25));
}

TEST_F(HopsTest, TheFirstTokenOfAPageIsComputedWithThePageBefore) {
  Hops hops = WithHeights(kHeights, {.pages = 1, .question_rows = 1});
  AskAll(hops.Pass(), 1);
  hops.ReadKeys(1, KeysFor(hops.Cells(1), 24));
  hops.EndPass();
  EXPECT_THAT(hops.Pass().positions, ElementsAre(20, 21, 22, 23, 24, 25, 26, 27, 48, 49));
}

TEST_F(HopsTest, ARowFindsNoPageBehindIt) {
  Hops hops = WithHeights(kHeights, {.pages = 3, .question_rows = 1});
  AskAll(hops.Pass(), 1);
  hops.ReadKeys(1, KeysFor(hops.Cells(1), 25));
  hops.EndPass();
  const Positions before = hops.Cells(1).visible;
  AskAll(hops.Pass(), 1);
  const Positions found = Difference(hops.Cells(1).visible, before);
  EXPECT_FALSE(found.empty());
  EXPECT_THAT(found, Each(Lt(26u)));
}

TEST_F(HopsTest, NothingIsComputedWhereNoTokenGetsEnoughAttention) {
  Hops hops = WithHeights(kHeights, {.pages = 1, .question_rows = 1});
  AskAll(hops.Pass(), 1);
  hops.ReadKeys(1, KeysFor(hops.Cells(1), 1000));
  EXPECT_FALSE(hops.EndPass());
  EXPECT_THAT(hops.Pass().positions, ElementsAre(48, 49));
}

TEST_F(HopsTest, PagesOfTheFirstDocumentAreReadButNotComputed) {
  Hops hops = WithHeights({0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, {.pages = 1, .question_rows = 1});
  AskAll(hops.Pass(), 1);
  hops.ReadKeys(1, KeysFor(hops.Cells(1), 5));
  EXPECT_TRUE(hops.EndPass());
  EXPECT_THAT(hops.Pass().positions, ElementsAre(48, 49));
  EXPECT_THAT(hops.Cells(0).visible, Contains(5));
}

TEST_F(HopsTest, AQueryIsTurnedByTheMoveOfTheDocument) {
  spec_.rope.rotary_dim = 2;
  Hops hops(layout_, spec_, {.pages = 1, .question_rows = 1, .layers = {1}});
  for (int document = 0; document < 3; ++document) {
    std::vector<float> bounds;
    for (int page = 0; page < 4; ++page) {
      // Page 6 lies in the direction of the query once it has moved by 16; page 9 does as stored.
      const double angle = page == 2 && document == 1 ? M_PI / 4 - 16 : M_PI / 4;
      const float length = page == 2 - (document == 2) && document > 0 ? 9 : 0;
      const auto x = static_cast<float>(length * std::cos(angle));
      const auto y = static_cast<float>(length * std::sin(angle));
      bounds.insert(bounds.end(), {x, y, x, y});
    }
    std::vector<std::byte> bytes(bounds.size() * sizeof(float));
    std::memcpy(bytes.data(), bounds.data(), bytes.size());
    hops.AddDigests(std::move(bytes));
  }
  AskAll(hops.Pass(), 1);
  EXPECT_THAT(hops.Cells(1).visible, Contains(24));
  EXPECT_THAT(hops.Cells(1).visible, Not(Contains(36)));
}

TEST_F(HopsTest, ABoundThatIsNoNumberIsFoundLast) {
  std::vector<float> heights = kHeights;
  heights[2] = std::numeric_limits<float>::quiet_NaN();
  Hops hops = WithHeights(heights, {.pages = 1, .question_rows = 1});
  AskAll(hops.Pass(), 1);
  EXPECT_THAT(hops.Cells(1).visible, Not(Contains(8)));
}

}  // namespace
}  // namespace quire::worker
