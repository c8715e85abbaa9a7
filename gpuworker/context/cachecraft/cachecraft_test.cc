// SPDX-License-Identifier: Apache-2.0
//
// Cache-Craft's scores against hand-computed ones, its choice, and the attention that they are
// made of.
#include "gpuworker/context/cachecraft/cachecraft.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "gpuworker/context/cachecraft/chunk_attention.h"
#include "gpuworker/context/cachecraft/variants_record.h"
#include "gpuworker/context/full_prefill.h"
#include "gpuworker/testing/cached_documents.h"

namespace quire::worker {
namespace {

using testing::CachedDocuments;
using testing::Distance;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

SegmentKey Key(uint8_t number) {
  SegmentKey key;
  key.bytes[0] = number;
  return key;
}

/// Behind documents 1, 2 and 3, which it attended to by 5, 3 and 2.
ChunkVariant Behind123(double impact) {
  return {.chain_tip = Key(9),
          .segments = {Key(8), Key(9)},
          .first_token = 70,
          .prefix = {Key(1), Key(2), Key(3)},
          .inter = {5, 3, 2},
          .impact = impact,
          .tokens = {0.1f, 0.4f, 0.2f, 0.4f}};
}

TEST(CacheCraftTest, ScoresOfWorkedVectors) {
  EXPECT_NEAR(ContextImpact(0.2, 1), 0.5498, 5e-5);
  EXPECT_NEAR(FixOverhead(ContextImpact(0.2, 1), 1, 0, 1), 0, 1e-12);
  EXPECT_NEAR(FixOverhead(ContextImpact(0.2, 1), 0.5, 0, 1), 0.2749, 5e-5);
  EXPECT_NEAR(ContextImpact(2, 1), 0.8808, 5e-5);
  EXPECT_NEAR(FixOverhead(ContextImpact(2, 1), 0, 0, 1), 0.8808, 5e-5);
  EXPECT_NEAR(FixOverhead(ContextImpact(2, 1), 0.8, 0.5, 1), 0.5285, 5e-5);
  EXPECT_EQ(ContextImpact(0.2, 0), 1);
  EXPECT_EQ(FixOverhead(0.9, 0, 0, 5), 1) << "a share";
}

// a = 6 / (4 * 3) + 8 / (4 * 2) = 1.5, b = 8 / 16 = 0.5: CCI = 1 / (1 + e^-3).
TEST(CacheCraftTest, TheImpactIsOfMeansOverPairsOfTokens) {
  const PromptLayout layout{.sources = {{.tokens = 3}, {.tokens = 2}, {.tokens = 4}}};
  const ChunkAttention chunk{.inter = {6, 8}, .intra = 8};
  EXPECT_NEAR(ContextImpact(chunk, layout, 2), 1 / (1 + std::exp(-3)), 1e-12);
}

TEST(CacheCraftTest, TheOverlapIsTheSharedPartOfItsAttention) {
  const ChunkVariant variant = Behind123(0.8);
  EXPECT_DOUBLE_EQ(PrefixOverlap(variant, variant.prefix), 1);
  EXPECT_DOUBLE_EQ(PrefixOverlap(variant, std::vector{Key(3), Key(7)}), 0.2);
  EXPECT_DOUBLE_EQ(PrefixOverlap(variant, std::vector{Key(7)}), 0);
  ChunkVariant nothing = variant;
  nothing.inter = {0, 0, 0};
  EXPECT_DOUBLE_EQ(PrefixOverlap(nothing, std::vector{Key(7)}), 1);
}

TEST(CacheCraftTest, TheDisorderIsKendallsDistanceOfTheSharedDocuments) {
  const std::vector before = {Key(1), Key(2), Key(3)};
  EXPECT_DOUBLE_EQ(PrefixDisorder(before, before), 0);
  EXPECT_DOUBLE_EQ(PrefixDisorder(before, std::vector{Key(3), Key(2), Key(1)}), 1);
  EXPECT_NEAR(PrefixDisorder(before, std::vector{Key(2), Key(1), Key(3)}), 1.0 / 3, 1e-12);
  EXPECT_DOUBLE_EQ(PrefixDisorder(before, std::vector{Key(3), Key(7), Key(1)}), 1);
  EXPECT_DOUBLE_EQ(PrefixDisorder(before, std::vector{Key(3)}), 0);
  EXPECT_DOUBLE_EQ(PrefixDisorder(std::vector{Key(1), Key(1)}, std::vector{Key(1)}), 0);
}

TEST(CacheCraftTest, TheVariantWithTheLeastOverheadIsFirst) {
  const std::vector prefix = {Key(1), Key(3)};
  std::vector<ChunkVariant> variants = {Behind123(0.8), Behind123(0.7)};
  // 0.7 * (1 - 0.7) for the second, and 0.7 for the document alone.
  const auto choices = RankVariants(variants, prefix, {});
  ASSERT_EQ(choices.size(), 3u);
  EXPECT_EQ(choices[0].variant, 1u);
  EXPECT_NEAR(choices[0].overhead, 0.7 * 0.3, 1e-12);
  EXPECT_EQ(choices[1].variant, 0u);
  EXPECT_EQ(choices[2].variant, std::nullopt);
  EXPECT_NEAR(choices[2].overhead, 0.7, 1e-12);
  EXPECT_NEAR(RankVariants(variants, prefix, {.alpha = 0.5})[0].overhead, 0.35 * 0.3, 1e-12);
  EXPECT_EQ(RankVariants(variants, std::vector{Key(7)}, {})[0].variant, std::nullopt)
      << "nothing is shared";
}

TEST(CacheCraftTest, OfEqualVariantsTheOneBehindTheSameDocumentsIsFirst) {
  const std::vector prefix = {Key(1), Key(2), Key(3), Key(7)};
  std::vector<ChunkVariant> variants = {Behind123(0.8), Behind123(0.8)};
  variants[1].prefix.push_back(Key(7));
  variants[1].inter.push_back(1);
  const auto choices = RankVariants(variants, prefix, {});
  EXPECT_EQ(choices[0].overhead, 0);
  EXPECT_EQ(choices[1].overhead, 0) << "a document more before it is not seen";
  EXPECT_EQ(choices[0].variant, 1u);
}

TEST(CacheCraftTest, ADocumentWithoutVariantsIsComputed) {
  const auto choices = RankVariants({}, std::vector{Key(1)}, {});
  ASSERT_EQ(choices.size(), 1u);
  EXPECT_EQ(choices[0].overhead, 1);
}

TEST(CacheCraftTest, TokensThatAttendedMostToOthersAreFixed) {
  const ChunkVariant variant = Behind123(0.8);
  EXPECT_THAT(TokensToFix(&variant, 0.5, 4), ElementsAre(1, 3));
  EXPECT_THAT(TokensToFix(&variant, 0.51, 4), ElementsAre(1, 2, 3));
  EXPECT_THAT(TokensToFix(&variant, 0, 4), IsEmpty());
  EXPECT_THAT(TokensToFix(nullptr, 0.5, 4), ElementsAre(0, 1)) << "as EPIC";
}

TEST(CacheCraftTest, RecordsReadBackAndOthersAreRefused) {
  const std::vector<ChunkVariant> variants = {Behind123(0.8), Behind123(0.6)};
  const std::string bytes = EncodeVariants(variants);
  const auto read = DecodeVariants(bytes, 4);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->size(), 2u);
  EXPECT_EQ((*read)[1].chain_tip, Key(9));
  EXPECT_EQ((*read)[1].segments, variants[1].segments);
  EXPECT_EQ((*read)[1].first_token, 70u);
  EXPECT_EQ((*read)[1].prefix, variants[1].prefix);
  EXPECT_EQ((*read)[1].inter, variants[1].inter);
  EXPECT_EQ((*read)[1].impact, 0.6);
  EXPECT_EQ((*read)[1].tokens, variants[1].tokens);
  EXPECT_EQ(DecodeVariants(bytes, 5).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(DecodeVariants("no record", 4).status().code(), StatusCode::kDataLoss);
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0xff);
    const auto others = DecodeVariants(damaged, 4);
    for (const ChunkVariant& variant : others.ok() ? *others : std::vector<ChunkVariant>()) {
      ASSERT_EQ(variant.tokens.size() + variant.skipped, 4u);
      ASSERT_EQ(variant.inter.size(), variant.prefix.size());
    }
  }
  const auto refused = [](ChunkVariant variant) {
    return DecodeVariants(EncodeVariants(std::vector{std::move(variant)}), 4).status().code() ==
           StatusCode::kDataLoss;
  };
  ChunkVariant bad = Behind123(0.4);
  EXPECT_TRUE(refused(bad)) << "no CCI";
  bad = Behind123(0.8);
  bad.inter.pop_back();
  EXPECT_TRUE(refused(bad));
  bad = Behind123(0.8);
  bad.tokens[2] = -1;
  EXPECT_TRUE(refused(bad));
  bad = Behind123(0.8);
  bad.inter[1] = 1e300;
  EXPECT_TRUE(refused(bad)) << "more than four tokens have";
}

TEST(CacheCraftTest, RecordsOfMoreThanIsKeptAreRefused) {
  std::vector<ChunkVariant> variants(kMostVariants, Behind123(0.8));
  EXPECT_TRUE(DecodeVariants(EncodeVariants(variants), 4).ok());
  variants.push_back(Behind123(0.8));
  EXPECT_EQ(DecodeVariants(EncodeVariants(variants), 4).status().code(), StatusCode::kDataLoss);
  ChunkVariant deep = Behind123(0.8);
  deep.prefix.resize(kMostPrefix, Key(1));
  deep.inter.resize(kMostPrefix, 0);
  EXPECT_TRUE(DecodeVariants(EncodeVariants({&deep, 1}), 4).ok());
  deep.prefix.push_back(Key(1));
  deep.inter.push_back(0);
  EXPECT_EQ(DecodeVariants(EncodeVariants({&deep, 1}), 4).status().code(), StatusCode::kDataLoss);
}

class CollectedAttentionTest : public ::testing::Test {
 protected:
  static constexpr double kSame = 1e-8;

  std::vector<ChunkAttention> Collect() {
    std::vector<ChunkAttention> chunks;
    ReusePlan plan = FullPrefill(documents_.layout(), documents_.num_layers());
    plan.rows =
        std::make_unique<AttentionCollector>(std::move(plan.rows), documents_.layout(), &chunks);
    logits_ = documents_.Run(std::move(plan), documents_.Alone()).logits;
    AttentionCollector::Finish(&chunks);
    return chunks;
  }

  CachedDocuments documents_{{30, 600, 40}, 10};  // More than a block of rows.
  std::vector<float> logits_;
};

TEST_F(CollectedAttentionTest, EveryTokenSharesOutItsWholeAttention) {
  const std::vector<ChunkAttention> chunks = Collect();
  ASSERT_EQ(chunks.size(), 3u);
  const size_t lengths[] = {30, 600, 40};
  for (size_t i = 0; i < 3; ++i) {
    double inter = 0;
    for (const double mass : chunks[i].inter) inter += mass;
    EXPECT_NEAR(inter + chunks[i].intra, static_cast<double>(lengths[i]), 1e-2);
    double of_tokens = 0;
    for (const float mass : chunks[i].tokens) of_tokens += mass;
    EXPECT_NEAR(of_tokens, inter, 1e-2);
    // The last layer has no outputs of documents.
    EXPECT_NEAR(chunks[i].layers, documents_.num_layers() - 1, 1e-9);
  }
  EXPECT_NEAR(chunks[0].intra, 30, 1e-3) << "nothing is before it";
  EXPECT_GT(chunks[2].inter[1], chunks[2].inter[0]) << "the longer one";
}

TEST_F(CollectedAttentionTest, CollectingChangesNoAnswer) {
  Collect();
  EXPECT_LT(Distance(logits_, documents_.FullLogits()), kSame);
}

TEST_F(CollectedAttentionTest, NothingIsComputedWhereNothingHasToBeFixed) {
  const std::vector<std::vector<uint64_t>> none(3);
  const auto right = documents_.Run(CacheCraft(documents_.layout(), documents_.num_layers(), none),
                                    documents_.Together());
  EXPECT_LT(Distance(right.logits, documents_.FullLogits()), kSame);
  EXPECT_EQ(right.stats.fresh_rows, 10u * documents_.num_layers());
}

TEST_F(CollectedAttentionTest, FixingEveryTokenIsFullPrefill) {
  std::vector<std::vector<uint64_t>> all(3);
  for (size_t i = 1; i < 3; ++i) {
    all[i] = TokensToFix(nullptr, 1, documents_.layout().sources[i].tokens);
  }
  const auto run = documents_.Run(CacheCraft(documents_.layout(), documents_.num_layers(), all),
                                  documents_.Alone());
  EXPECT_LT(Distance(run.logits, documents_.FullLogits()), kSame);
}

}  // namespace
}  // namespace quire::worker
