// SPDX-License-Identifier: Apache-2.0
//
// Methods of reuse against full prefill, on documents that a small random model prefilled alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <vector>

#include "gpuworker/context/cacheblend/cacheblend.h"
#include "gpuworker/context/epic.h"
#include "gpuworker/context/every_output.h"
#include "gpuworker/context/full_prefill.h"
#include "gpuworker/context/reuse_isolated.h"
#include "gpuworker/context/reuse_strict.h"
#include "gpuworker/testing/cached_documents.h"

namespace quire::worker {
namespace {

using testing::CachedDocuments;
using testing::Distance;
using testing::MemoryViews;
using testing::PromptKv;

constexpr double kSame = 1e-8;  // Two orders of addition.

class ReuseMethodTest : public ::testing::Test {
 protected:
  uint32_t layers() const { return documents_.num_layers(); }
  double DistanceFromFull(ReusePlan plan, const PromptKv& kv) {
    return Distance(documents_.Run(std::move(plan), kv).logits, full_);
  }

  /// Logits of rows at `positions`, all of them computed in every layer.
  std::vector<float> RowsOf(const std::vector<uint64_t>& positions, RowUpdate update,
                            const std::vector<TokenId>& prompt, const PromptKv& kv) {
    ReusePlan plan = Computing(positions, AllCells(layout_), layers());
    plan.rows = std::make_unique<EveryOutput>(std::move(plan.rows), layers());
    MemoryViews views(&plan, &kv, documents_.row());
    std::vector<TokenId> tokens;
    for (const uint64_t position : positions) tokens.push_back(prompt[position]);
    std::vector<float> logits(tokens.size() * CachedDocuments::kVocabulary);
    const auto computed = documents_.decoder().SparsePrefill(
        {tokens, plan.positions}, plan.rows.get(), &views, update, logits.data());
    EXPECT_TRUE(computed.ok()) << computed.status();
    return logits;
  }

  CachedDocuments documents_{{70, 45, 90}, 20};
  const PromptLayout& layout_ = documents_.layout();
  const std::vector<float> full_ = documents_.FullLogits();
  const PromptKv alone_ = documents_.Alone();
};

TEST_F(ReuseMethodTest, ComputingEverythingIsFullPrefillByEveryMethod) {
  EXPECT_LT(DistanceFromFull(FullPrefill(layout_, layers()), alone_), kSame);
  EXPECT_LT(DistanceFromFull(Epic(layout_, layers(), 1000), alone_), kSame);
  EXPECT_LT(DistanceFromFull(CacheBlend(layout_, layers(), {.ratio = 1}), alone_), kSame);
  EXPECT_LT(DistanceFromFull(CacheBlend(layout_, layers(), {.ratio = 1, .gradual = true}), alone_),
            kSame);
}

TEST_F(ReuseMethodTest, OverKeysThatAreRightNothingHasToBeComputed) {
  const PromptKv together = documents_.Together();
  EXPECT_LT(DistanceFromFull(ReuseStrict(layout_, layers()), together), kSame);
  EXPECT_LT(DistanceFromFull(CacheBlend(layout_, layers(), {.ratio = 0}), together), kSame);
}

TEST_F(ReuseMethodTest, OneDocumentIsItsPrefix) {
  CachedDocuments one({80}, 10);
  EXPECT_LT(Distance(one.Run(ReuseStrict(one.layout(), one.num_layers()), one.Alone()).logits,
                     one.FullLogits()),
            kSame);
}

TEST_F(ReuseMethodTest, AnIsolatedQuestionIsOneThatWasStoredAlone) {
  // The question as a fourth document, and its last token asked over all four.
  CachedDocuments four({70, 45, 90, 19}, 1);
  PromptKv alone = four.Alone();
  const std::vector<float> stored =
      four.Run(ReuseStrict(four.layout(), four.num_layers()), alone).logits;
  PromptLayout three = four.layout();
  three.sources.pop_back();
  three.question_first -= 19;
  three.question_tokens += 19;
  const std::vector<float> isolated =
      four.Run(ReuseIsolated(three, four.num_layers()), alone).logits;
  EXPECT_LT(Distance(isolated, stored), kSame);
  EXPECT_GT(Distance(four.Run(ReuseStrict(three, four.num_layers()), alone).logits, stored), 1e-4);
}

TEST_F(ReuseMethodTest, TheMoreIsComputedTheNearerItIs) {
  const double reused = DistanceFromFull(ReuseStrict(layout_, layers()), alone_);
  const double blended = DistanceFromFull(CacheBlend(layout_, layers(), {.ratio = 0.5}), alone_);
  EXPECT_GT(reused, 1e-4) << "reuse alone has to show";
  EXPECT_LT(blended, reused);
  EXPECT_GT(blended, kSame);
}

TEST_F(ReuseMethodTest, KeysOfAWrongPlaceShow) {
  const double right = DistanceFromFull(ReuseStrict(layout_, layers()), alone_);
  const double wrong = DistanceFromFull(ReuseStrict(layout_, layers()), documents_.Alone(37));
  EXPECT_GT(wrong, 1.5 * right);
}

TEST_F(ReuseMethodTest, EpicComputesTheHeadsOfDocumentsButTheFirst) {
  const ReusePlan plan = Epic(layout_, layers(), 2);
  EXPECT_THAT(std::vector(plan.positions.begin(), plan.positions.begin() + 5),
              ::testing::ElementsAre(70, 71, 115, 116, 205));
  EXPECT_EQ(plan.positions.size(), 24u);
}

TEST_F(ReuseMethodTest, CacheBlendComputesItsShareBehindTheCheckLayer) {
  const CachedDocuments::Answer answer =
      documents_.Run(CacheBlend(layout_, layers(), {.ratio = 0.2}), alone_);
  // Layers 0 and 1 refresh all 225 rows, layers 2 and 3 a fifth of 205 and the question.
  EXPECT_EQ(answer.stats.fresh_rows, 2 * 225u + 2 * (41 + 20));
}

TEST_F(ReuseMethodTest, AGradualFilterComputesFewerRowsInEachLayer) {
  const CachedDocuments::Answer answer =
      documents_.Run(CacheBlend(layout_, layers(), {.ratio = 0.2, .gradual = true}), alone_);
  // Behind layer 1 stay 0.26 of 205 rows, and 0.14 behind layer 2.
  EXPECT_EQ(answer.stats.fresh_rows, 2 * 225u + (54 + 20) + (29 + 20));
}

TEST_F(ReuseMethodTest, AGradualFilterHasItsRatioAsTheMeanOverLayers) {
  for (const double ratio : {0.15, 0.5, 0.9, 1.0}) {
    const CachedDocuments::Answer answer =
        documents_.Run(CacheBlend(layout_, layers(), {.ratio = ratio, .gradual = true}), alone_);
    const double chosen = static_cast<double>(answer.stats.fresh_rows) - 2 * 225 - 2 * 20;
    EXPECT_NEAR(chosen / (2 * 205), ratio, 1.0 / 205) << "layers behind the check layer";
  }
}

TEST_F(ReuseMethodTest, AScatteredPlanNeverLooksAhead) {
  std::vector<uint64_t> scattered = {3, 71, 73, 90, 116, 150, 151, 200};
  for (uint64_t at = layout_.question_first; at < layout_.tokens(); ++at) scattered.push_back(at);
  for (const RowUpdate update : {RowUpdate::kOverwrite, RowUpdate::kFusion}) {
    const std::vector<float> before = RowsOf(scattered, update, documents_.prompt(), alone_);
    const size_t row = documents_.row();
    for (const uint64_t changed : {73u, 100u, 151u, 204u}) {  // Two of them are computed.
      std::vector<TokenId> prompt = documents_.prompt();
      prompt[changed] = (prompt[changed] + 1) % CachedDocuments::kVocabulary;
      PromptKv kv = alone_;
      for (uint32_t layer = 0; layer < layers(); ++layer) {
        for (size_t i = changed * row; i < (changed + 1) * row; ++i) {
          kv.keys[layer][i] += 1;
          kv.values[layer][i] -= 1;
        }
      }
      const std::vector<float> after = RowsOf(scattered, update, prompt, kv);
      for (size_t i = 0; i < scattered.size(); ++i) {
        const auto first = static_cast<ptrdiff_t>(i * CachedDocuments::kVocabulary);
        const bool same = std::equal(before.begin() + first,
                                     before.begin() + first + CachedDocuments::kVocabulary,
                                     after.begin() + first);
        EXPECT_EQ(same, scattered[i] < changed)
            << "row of " << scattered[i] << ", token " << changed;
      }
    }
  }
}

TEST_F(ReuseMethodTest, FreshRowsReplaceTheCachedOnesInTheView) {
  ReusePlan plan = Epic(layout_, layers(), 4);
  MemoryViews views(&plan, &alone_, documents_.row());
  documents_.Run(&plan, &views);
  const PromptKv together = documents_.Together();
  // Layer 0 depends on the token and its position alone.
  for (size_t i = 0; i < views.keys(0).size() && i < together.keys[0].size(); ++i) {
    ASSERT_NEAR(views.keys(0)[i], together.keys[0][i], 1e-4);
  }
  const size_t head = 70 * documents_.row();
  EXPECT_NE(views.values(2)[head], alone_.values[2][head]);
  const size_t behind = 80 * documents_.row();
  EXPECT_EQ(views.values(2)[behind], alone_.values[2][behind]);
}

TEST_F(ReuseMethodTest, FusionMeetsKeysThatWereTurnedToTheirPlaces) {
  // In layer 0 a fresh key equals the cached one at its place, so that fusion changes nothing.
  const PromptKv together = documents_.Together();
  const auto farthest = [&](const PromptKv& cached) {
    ReusePlan plan = Epic(layout_, layers(), 4);
    plan.update = RowUpdate::kFusion;
    MemoryViews views(&plan, &cached, documents_.row());
    documents_.Run(&plan, &views);
    float most = 0;
    for (const uint64_t first : {70u, 115u}) {
      for (size_t i = first * documents_.row(); i < (first + 4) * documents_.row(); ++i) {
        most = std::max(most, std::abs(views.keys(0)[i] - together.keys[0][i]));
      }
    }
    return most;
  };
  EXPECT_LT(farthest(alone_), 1e-4);
  EXPECT_GT(farthest(documents_.Alone(37)), 1e-2);
}

}  // namespace
}  // namespace quire::worker
