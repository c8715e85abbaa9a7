// SPDX-License-Identifier: Apache-2.0
//
// Documents as they were computed behind others: kept after a question, used by the next ones.
#include "gpuworker/engine/reuse/document_variants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "gpuworker/context/cachecraft/variants_record.h"
#include "gpuworker/engine/reuse/reuse_run.h"
#include "gpuworker/testing/engine_fixture.h"

namespace quire::worker {
namespace {

using testing::EngineFixture;
using testing::MaxDifference;
using testing::RandomTokens;

class DocumentVariantsTest : public ::testing::Test {
 protected:
  static constexpr float kSame = 1e-4f;

  /// Documents that are no whole number of pages or segments.
  DocumentVariantsTest() {
    for (const size_t length : {21, 60, 37}) {
      documents_.push_back(RandomTokens(length, 10 + documents_.size()));
      names_.push_back({.name = "doc" + std::to_string(names_.size())});
      EXPECT_TRUE(fixture_.engine().Ingest(documents_.back(), names_.back()).ok());
    }
  }
  struct Asked {
    std::vector<float> logits;
    ReuseStats stats;
  };
  /// Asks over documents in this order.
  Asked Ask(const std::vector<size_t>& order, ReuseMethod method = ReuseMethod::kCacheCraft,
            uint32_t variants = 5, double alpha = 1) {
    std::vector<DocumentName> names;
    for (const size_t i : order) names.push_back(names_[i]);
    const auto run = fixture_.engine().OpenReuse(
        names, question_, {.method = method, .cachecraft = {.alpha = alpha}, .variants = variants});
    EXPECT_TRUE(run.ok()) << run.status();
    if (!run.ok()) return {};
    Asked asked{.logits = {(*run)->logits().begin(), (*run)->logits().end()}};
    EXPECT_TRUE((*run)->Generate({.max_new_tokens = 2}).ok());
    const uint32_t to_keep = (*run)->stats().variants_kept;
    EXPECT_LE((*run)->KeepVariants(), to_keep);
    asked.stats = (*run)->stats();
    return asked;
  }
  std::vector<float> Dense(const std::vector<size_t>& order) {
    std::vector<TokenId> all;
    for (const size_t i : order) all.insert(all.end(), documents_[i].begin(), documents_[i].end());
    all.insert(all.end(), question_.begin(), question_.end());
    return fixture_.engine().DenseLogits(all, 1).value();
  }
  Client& client() { return fixture_.client(); }
  StatusOr<std::vector<ChunkVariant>> Variants(size_t document) {
    QUIRE_ASSIGN_OR_RETURN(const auto extra, client().GetExtra(names_[document], kVariantsExtra));
    std::string bytes(extra.payload.size_bytes(), '\0');
    extra.payload.CopyTo(reinterpret_cast<std::byte*>(bytes.data()));
    return DecodeVariants(bytes, documents_[document].size());
  }
  void PutVariant(size_t document, const ChunkVariant& variant) {
    const std::string record = EncodeVariants({&variant, 1});
    const auto bytes = std::as_bytes(std::span(record.data(), record.size()));
    Payload payload;
    payload.Append(std::vector<std::byte>(bytes.begin(), bytes.end()));
    EXPECT_TRUE(
        client().PutExtra(names_[document], kVariantsExtra, kVariantsVersion, payload).ok());
  }
  SegmentKey TipOf(const DocumentName& name) { return client().GetDocument(name)->chain_tip; }

  EngineFixture fixture_;
  std::vector<std::vector<TokenId>> documents_;
  std::vector<DocumentName> names_;
  const std::vector<TokenId> question_ = RandomTokens(7, 99);
};

TEST_F(DocumentVariantsTest, TheSameDocumentsAgainAreReadAndEqualFullPrefill) {
  const std::vector<float> dense = Dense({0, 1, 2});
  const Asked first = Ask({0, 1, 2});
  EXPECT_LT(MaxDifference(first.logits, dense), kSame) << "nothing was known, all was computed";
  EXPECT_EQ(first.stats.variants_used, 0u);
  EXPECT_EQ(first.stats.variants_kept, 2u);
  EXPECT_NEAR(first.stats.recompute_ratio, 97.0 / 118, 1e-9);
  const Asked second = Ask({0, 1, 2});
  EXPECT_LT(MaxDifference(second.logits, dense), kSame);
  EXPECT_EQ(second.stats.variants_used, 2u);
  EXPECT_EQ(second.stats.variants_kept, 0u);
  EXPECT_EQ(second.stats.recompute_ratio, 0);
  EXPECT_GT(MaxDifference(Ask({0, 1, 2}, ReuseMethod::kReuse).logits, dense), kSame)
      << "the documents alone are not enough";
}

TEST_F(DocumentVariantsTest, FullPrefillKeepsVariantsOnce) {
  EXPECT_EQ(Ask({0, 1, 2}, ReuseMethod::kFull, 0).stats.variants_kept, 0u);
  EXPECT_EQ(Variants(1).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Ask({0, 1, 2}, ReuseMethod::kFull).stats.variants_kept, 2u);
  EXPECT_EQ(Ask({0, 1, 2}, ReuseMethod::kFull).stats.variants_kept, 0u);
  ASSERT_EQ(Variants(2)->size(), 1u);
  const ChunkVariant variant = Variants(2)->front();
  EXPECT_EQ(variant.prefix, (std::vector{TipOf(names_[0]), TipOf(names_[1])}));
  EXPECT_EQ(variant.first_token, 81u);
  EXPECT_EQ(Ask({0, 1, 2}).stats.variants_used, 2u);
}

TEST_F(DocumentVariantsTest, AnotherPrefixFixesSomeTokens) {
  Ask({0, 1, 2});
  // Document 2 stood behind 0 and 1, and saw both.
  const Asked less = Ask({0, 2});
  EXPECT_EQ(less.stats.variants_used, 1u);
  EXPECT_GT(less.stats.recompute_ratio, 0);
  EXPECT_LT(less.stats.recompute_ratio, 37.0 / 58) << "not all of it";
  // In the other order nothing of its prefix counts: it is read as it was stored alone.
  const Asked swapped = Ask({1, 0, 2});
  EXPECT_EQ(swapped.stats.variants_used, 0u);
  EXPECT_GT(swapped.stats.recompute_ratio, 21.0 / 118) << "0 is computed, and some of 2";
  EXPECT_LE(swapped.stats.recompute_ratio, 58.0 / 118);
  const Asked all = Ask({1, 2}, ReuseMethod::kCacheCraft, 0, /*alpha=*/100);
  EXPECT_LT(MaxDifference(all.logits, Dense({1, 2})), kSame) << "every token is fixed";
}

TEST_F(DocumentVariantsTest, WhatWasFixedInPartIsNotKept) {
  Ask({0, 1, 2});
  // Document 1 has a variant behind 0 only. Behind 2 some of its tokens are computed.
  const Asked mixed = Ask({2, 1});
  EXPECT_EQ(mixed.stats.variants_kept, 0u);
  EXPECT_EQ(Variants(1)->size(), 1u);
}

TEST_F(DocumentVariantsTest, TheOldestVariantMakesRoom) {
  Ask({0, 1}, ReuseMethod::kFull, 2);
  Ask({2, 1}, ReuseMethod::kFull, 2);
  Ask({0, 2, 1}, ReuseMethod::kFull, 2);
  const auto variants = Variants(1);
  ASSERT_TRUE(variants.ok()) << variants.status();
  ASSERT_EQ(variants->size(), 2u);
  EXPECT_EQ((*variants)[0].prefix, std::vector{TipOf(names_[2])});
  EXPECT_EQ((*variants)[1].prefix.size(), 2u);
}

TEST_F(DocumentVariantsTest, VariantsThatWereEvictedAreComputedAgain) {
  Ask({0, 1, 2});
  fixture_.store().EvictUnnamed();
  const Asked again = Ask({0, 1, 2});
  EXPECT_EQ(again.stats.variants_used, 0u);
  EXPECT_EQ(again.stats.variants_kept, 2u);
  EXPECT_LT(MaxDifference(again.logits, Dense({0, 1, 2})), kSame);
  EXPECT_EQ(Variants(1)->size(), 1u) << "the lost one is forgotten";
}

TEST_F(DocumentVariantsTest, AnAnswerIsGivenWhereNothingCanBeKept) {
  fixture_.store().FailOnce("Store/Seal", 0, ResourceExhausted("full"));
  const Asked asked = Ask({0, 1, 2});
  EXPECT_EQ(asked.stats.variants_kept, 0u);
  EXPECT_LT(MaxDifference(asked.logits, Dense({0, 1, 2})), kSame);
  EXPECT_EQ(fixture_.store().open_contexts(), 0u);
}

TEST_F(DocumentVariantsTest, ACancelledQuestionKeepsNothing) {
  bool cancelled = false;
  const auto run = fixture_.engine().OpenReuse(
      names_, question_,
      {.method = ReuseMethod::kFull, .variants = 5, .keep_going = [&] { return !cancelled; }});
  ASSERT_TRUE(run.ok()) << run.status();
  const auto cancel = [&](TokenId) {
    cancelled = true;
    return false;
  };
  ASSERT_TRUE((*run)->Generate({.max_new_tokens = 2, .on_token = cancel}).ok());
  EXPECT_EQ((*run)->KeepVariants(), 0u);
  EXPECT_EQ((*run)->stats().variants_kept, 0u);
  EXPECT_EQ(fixture_.store().calls("Registry/PutExtra"), 6u)
      << "statistics and representative keys of three documents";
}

TEST_F(DocumentVariantsTest, ACancelledQuestionLooksNothingUp) {
  Ask({0, 1, 2});
  const uint64_t before = fixture_.store().calls("Registry/GetExtra");
  const auto run = fixture_.engine().OpenReuse(
      names_, question_,
      {.method = ReuseMethod::kCacheCraft, .variants = 5, .keep_going = [] { return false; }});
  EXPECT_EQ(run.status().code(), StatusCode::kCancelled);
  EXPECT_EQ(fixture_.store().calls("Registry/GetExtra"), before);
}

TEST_F(DocumentVariantsTest, ChainsOfAnotherModelOrOfOtherTokensAreNotUsed) {
  ChunkVariant variant{.chain_tip = TipOf(names_[2]),
                       .segments = {},
                       .prefix = {TipOf(names_[0])},
                       .inter = {1},
                       .impact = 0.6,
                       .tokens = std::vector<float>(60, 0.1f)};
  PutVariant(1, variant);
  EXPECT_EQ(Ask({0, 1}, ReuseMethod::kCacheCraft, 0).stats.variants_used, 0u) << "other tokens";
  EngineOptions options = EngineFixture::Small();
  options.page_tokens = 8;
  options.retrieval = {.budget_tokens = 64, .sink_tokens = 8, .window_tokens = 16};
  const auto other = Engine::Create(&fixture_.decoder(), &client(), &CpuDevice(), options);
  ASSERT_TRUE(other.ok()) << other.status();
  ASSERT_TRUE((*other)->Ingest(documents_[1], {.name = "other"}).ok());
  variant.chain_tip = TipOf({.name = "other"});
  PutVariant(1, variant);
  const Asked asked = Ask({0, 1}, ReuseMethod::kCacheCraft, 0);
  EXPECT_EQ(asked.stats.variants_used, 0u) << "other pages";
  EXPECT_GT(asked.stats.recompute_ratio, 0);
}

}  // namespace
}  // namespace quire::worker
