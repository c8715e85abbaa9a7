// SPDX-License-Identifier: Apache-2.0
//
// SamKV against full prefill and against hand-made cases of computed and stored rows.
#include "gpuworker/context/samkv/samkv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "gpuworker/context/compact_plan.h"
#include "gpuworker/model/sparse/row_update.h"
#include "gpuworker/testing/cached_documents.h"

namespace quire::worker {
namespace {

using testing::CachedDocuments;
using testing::Distance;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::IsEmpty;

class SamKvTest : public ::testing::Test {
 protected:
  /// Statistics without vectors, of blocks of 16 tokens.
  SamKvTest() {
    for (const PlacedSource& source : documents_.layout().sources) {
      DocumentStatistics statistics{
          .split = {.tokens = static_cast<uint32_t>(source.tokens), .block_tokens = 16}};
      statistics.layers.resize(documents_.num_layers());
      statistics_.push_back(statistics);
    }
  }
  std::vector<const DocumentStatistics*> Pointers() const {
    std::vector<const DocumentStatistics*> pointers;
    for (const DocumentStatistics& one : statistics_) pointers.push_back(&one);
    return pointers;
  }
  SelectedBlocks NoBlocks() const {
    return SelectedBlocks(documents_.num_layers(),
                          std::vector<std::vector<uint32_t>>(statistics_.size()));
  }
  SelectedBlocks EveryBlock() const {
    SelectedBlocks selected = NoBlocks();
    for (auto& layer : selected) {
      for (size_t i = 0; i < statistics_.size(); ++i) {
        layer[i].resize(statistics_[i].split.middle_blocks());
        std::iota(layer[i].begin(), layer[i].end(), 1);
      }
    }
    return selected;
  }

  CachedDocuments documents_{{100, 120, 90}, 10};
  std::vector<DocumentStatistics> statistics_;
};

TEST_F(SamKvTest, ReadingAndComputingEverythingIsFullPrefill) {
  const std::vector<float> full = documents_.FullLogits();
  ReusePlan plan = SamKv(documents_.layout(), Pointers(), EveryBlock(),
                         {.update = RowUpdate::kOverwrite, .rows = SamKvRows::kEverything});
  EXPECT_LT(Distance(documents_.Run(std::move(plan), documents_.Alone()).logits, full), 1e-8);
}

TEST_F(SamKvTest, ACompactPlanIsThePromptWithoutWhatIsNotRead) {
  // The first document has three blocks, so all of it is read. The second one leaves 64 tokens out.
  CachedDocuments two({40, 100}, 10);
  const DocumentStatistics documents[] = {{{40, 16}, std::vector<LayerStatistics>(4)},
                                          {{100, 16}, std::vector<LayerStatistics>(4)}};
  const DocumentStatistics* const pointers[] = {&documents[0], &documents[1]};
  const SelectedBlocks none(4, std::vector<std::vector<uint32_t>>(2));
  const SamKvPlanOptions options{.update = RowUpdate::kOverwrite, .rows = SamKvRows::kEverything};
  ReusePlan plan = SamKv(two.layout(), pointers, none, options);
  std::vector<TokenId> read;
  for (const uint64_t position : plan.cells(0).visible) read.push_back(two.prompt()[position]);
  const std::vector<TokenId> rows(read.begin() + 40, read.end());
  const CompactPrompt compact = Compact(two.layout(), {}, &plan).value();
  EXPECT_EQ(compact.tokens, 40u + 36 + 10);
  ASSERT_EQ(compact.pieces.size(), 3u);
  EXPECT_EQ(compact.pieces[2].document, 1u);
  EXPECT_EQ(compact.pieces[2].placed.skipped, 80u);
  EXPECT_EQ(compact.pieces[2].placed.first, 56u);
  EXPECT_EQ(compact.pieces[2].placed.move, 56 - 80);
  EXPECT_EQ(compact.pieces[2].placed.tokens, 20u);
  const testing::PromptKv kv = two.Alone();
  testing::MemoryViews views(&plan, &kv, two.row());
  EXPECT_LT(Distance(two.Run(&plan, &views, rows).logits, two.FullLogits(read)), 1e-8);
}

TEST_F(SamKvTest, FusionOverRightKeysIsFullPrefill) {
  const std::vector<float> full = documents_.FullLogits();
  ReusePlan plan = SamKv(documents_.layout(), Pointers(), EveryBlock());
  EXPECT_LT(Distance(documents_.Run(std::move(plan), documents_.Together()).logits, full), 1e-7);
}

TEST_F(SamKvTest, ReadsTheFirstAndLastBlocksAndComputesThoseOfLaterDocuments) {
  const ReusePlan plan = SamKv(documents_.layout(), Pointers(), NoBlocks());
  // The documents have 100, 120 and 90 tokens: 16 + 20, 16 + 24 and 16 + 26 in those blocks.
  EXPECT_EQ(plan.cells(0).visible.size(), 36u + 40 + 42 + 10);
  EXPECT_EQ(plan.positions.size(), 40u + 42 + 10);
  EXPECT_EQ(plan.positions.front(), 100u);
  EXPECT_THAT(plan.cells(3).hidden, IsEmpty());
}

TEST_F(SamKvTest, RowsThatOneLayerComputesAreHiddenWhereLayersBeforeDidNotSelectThem) {
  // Case 3 in layers 0 and 1, case 1 in layer 2: token 50 of document 1, in its block 3.
  statistics_[1].layers[2].outlier_tokens = {50, 70};
  SelectedBlocks selected = NoBlocks();
  selected[2][1] = {3};
  ReusePlan plan = SamKv(documents_.layout(), Pointers(), selected);
  const uint64_t position = 100 + 50;
  EXPECT_THAT(plan.cells(0).hidden, ElementsAre(position));
  EXPECT_THAT(plan.cells(1).hidden, ElementsAre(position));
  EXPECT_THAT(plan.cells(2).hidden, IsEmpty());
  EXPECT_THAT(plan.positions, ::testing::Contains(position));
  const LayerRows second = plan.rows->Rows(2);
  const LayerRows third = plan.rows->Rows(3);
  EXPECT_EQ(second.fresh.size(), third.fresh.size() + 1);
  EXPECT_EQ(third.outputs.size(), 1u);
}

TEST_F(SamKvTest, AttendedRowsAreSelectedBlocksInEveryLayerAndTheHeads) {
  SelectedBlocks selected = NoBlocks();
  selected[2][1] = {3};
  selected[0][0] = {1};
  const ReusePlan plan =
      SamKv(documents_.layout(), Pointers(), selected, {.rows = SamKvRows::kAttended});
  // 36, 40 and 42 tokens stand in first and last blocks, 16 in each of the two others.
  for (uint32_t layer = 0; layer < 4; ++layer) {
    EXPECT_EQ(plan.cells(layer).visible.size(), 36u + 40 + 42 + 2 * 16 + 10);
    EXPECT_THAT(plan.cells(layer).hidden, IsEmpty());
    EXPECT_EQ(plan.rows->Rows(layer).fresh.size(), 2 * 16u + 16 + 10);
  }
  // Heads of the second and the third document, block 3 of the second, and the question.
  EXPECT_EQ(plan.positions[0], 100u);
  EXPECT_EQ(plan.positions[16], 100u + 48);
  EXPECT_EQ(plan.positions[32], 220u);
  EXPECT_EQ(plan.positions[48], 310u);
}

TEST_F(SamKvTest, AHiddenRowSeesItselfAndOthersDoNotSeeIt) {
  statistics_[1].layers[2].outlier_tokens = {50};
  SelectedBlocks selected = NoBlocks();
  selected[2][1] = {3};
  const std::vector<const DocumentStatistics*> pointers = Pointers();
  testing::PromptKv kv = documents_.Alone();
  const auto run = [&] {
    return documents_.Run(SamKv(documents_.layout(), pointers, selected), kv).logits;
  };
  const std::vector<float> before = run();
  // Its cached value in layer 1 reaches the answer through its own output in layer 2 alone.
  kv.values[1][150 * documents_.row()] += 10;
  EXPECT_GT(Distance(run(), before), 0);
  // A token that no layer selected is read by nobody.
  const std::vector<float> now = run();
  kv.values[1][149 * documents_.row()] += 10;
  EXPECT_EQ(run(), now);
}

TEST_F(SamKvTest, TheQuestionsQueriesAreReadOverFirstAndLastBlocks) {
  const ModelConfig& config = documents_.decoder().config();
  const SamKvShape shape{config.num_layers, config.num_query_heads, config.num_kv_heads,
                         config.head_dim};
  QueryMeans means(shape, config.rope);
  std::vector<BlockSplit> splits;
  for (const DocumentStatistics& one : statistics_) splits.push_back(one.split);
  ReusePlan plan = SamKvQuestion(documents_.layout(), splits, &means);
  const testing::PromptKv kv = documents_.Alone();
  testing::MemoryViews views(&plan, &kv, documents_.row());
  documents_.Run(&plan, &views);
  const auto queries = means.Means();
  ASSERT_EQ(queries.size(), config.num_layers);
  for (const std::vector<float>& query : queries) {
    ASSERT_EQ(query.size(), size_t{config.num_query_heads} * config.head_dim);
    EXPECT_GT(std::abs(query.front()), 0);
  }
}

/// Documents of six blocks, with scores that are given.
class SelectionTest : public ::testing::Test {
 protected:
  static constexpr SamKvShape kShape{
      .num_layers = 1, .num_query_heads = 1, .num_kv_heads = 1, .head_dim = 6};

  static DocumentStatistics Document(std::vector<double> exponents) {
    DocumentStatistics document{.split = {.tokens = 6 * 64}};
    LayerStatistics layer;
    layer.local_query.assign(6, 0);
    layer.middle.resize(exponents.size());
    layer.most = 1;
    layer.least = 3;
    document.layers = {layer};
    return document;
  }
};

TEST_F(SelectionTest, TheRatioDecidesHowManyAndTheFilterWhich) {
  const DocumentStatistics a = Document({1, 2, 3});
  const DocumentStatistics b = Document({1, 2, 3});
  const DocumentStatistics* const documents[] = {&a, &b};
  // The anchor is (0.6 + 0 + 0) / 3 = 0.2, most is 1 and least 0: the ratio is 0.8. Three blocks of
  // each are retrieved. The filter keeps three of six, the best first.
  const std::vector<double> scores = {0.6, 1, 0.5, 0, 0, 0};
  const SelectedBlocks selected = SelectBlocks(documents, {{scores}, {scores}}, kShape);
  ASSERT_EQ(selected.size(), 1u);
  EXPECT_THAT(selected[0][0], ElementsAre(1, 2));
  EXPECT_THAT(selected[0][1], ElementsAre(1));
}

TEST_F(SelectionTest, AnAnchorAboveEveryBlockReadsNothing) {
  const DocumentStatistics a = Document({1, 2, 3});
  const DocumentStatistics* const documents[] = {&a};
  EXPECT_THAT(SelectBlocks(documents, {{{9, 1, 0.5, 0, 0, 0}}}, kShape)[0][0], IsEmpty());
}

TEST_F(SelectionTest, ADocumentIsScoredByItsPersonalisedQueryMeanOverGroups) {
  constexpr SamKvShape kGroups{
      .num_layers = 1, .num_query_heads = 2, .num_kv_heads = 1, .head_dim = 2};
  DocumentStatistics a{.split = {}, .layers = {LayerStatistics{.local_query = {3, 0, 4, 0}}}};
  DocumentStatistics b{.split = {}, .layers = {LayerStatistics{.local_query = {0, 5, 0, 0}}}};
  const DocumentStatistics* const documents[] = {&a, &b};
  const std::vector<float> question[] = {{3, 4, 0, 0}};
  // The other document's local query has the cosine 20 / 25 with the question, or 9 / 25.
  EXPECT_THAT(ScoringQueries(documents, question, kGroups, 0),
              ElementsAre(FloatNear(1.5f, 1e-6f), FloatNear((4 + 0.8f * 5) / 2, 1e-6f)));
  EXPECT_THAT(ScoringQueries(documents, question, kGroups, 1),
              ElementsAre(FloatNear((3 + 0.36f * 7) / 2, 1e-6f), FloatNear(2, 1e-6f)));
}

TEST(ScoresOfBlocksTest, ABlockIsTheMeanOfItsTokensPages) {
  const float pages[] = {1, 3, 5, 7, 11};
  EXPECT_THAT(ScoresOfBlocks({.tokens = 38, .block_tokens = 16}, 8, pages), ElementsAre(2, 6, 11));
  // Blocks of 12 tokens: the second page is in both, by its half.
  EXPECT_THAT(ScoresOfBlocks({.tokens = 24, .block_tokens = 12}, 8, std::span(pages, 3)),
              ElementsAre((8 * 1 + 4 * 3) / 12.0, (4 * 3 + 8 * 5) / 12.0));
  // A page of several blocks: each has its score.
  EXPECT_THAT(ScoresOfBlocks({.tokens = 12, .block_tokens = 4}, 8, std::span(pages, 2)),
              ElementsAre(1, 1, 3));
}

TEST(FuseRowTest, WeighsByTheCosine) {
  std::vector<float> fresh = {3, 4};
  const std::vector<float> cached = {4, 3};
  FuseRow(fresh, cached);  // The cosine is 24 / 25.
  EXPECT_NEAR(fresh[0], 0.96 * 3 + 0.04 * 4, 1e-6);
  EXPECT_NEAR(fresh[1], 0.96 * 4 + 0.04 * 3, 1e-6);
  std::vector<float> opposite = {1, 0};
  FuseRow(opposite, std::vector<float>{-1, 0});
  EXPECT_THAT(opposite, ElementsAre(-1, 0)) << "a cosine below 0 counts as 0";
  std::vector<float> alone = {1, 2};
  FuseRow(alone, std::vector<float>{0, 0});
  EXPECT_THAT(alone, ElementsAre(1, 2));
}

}  // namespace
}  // namespace quire::worker
