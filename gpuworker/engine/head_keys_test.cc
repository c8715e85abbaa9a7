// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/head_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "gpuworker/testing/engine_fixture.h"

namespace quire::worker {
namespace {

using ::testing::Contains;

/// Documents of whole segments of eight tokens and a short one.
class HeadKeysTest : public ::testing::Test {
 protected:
  static EngineOptions Options() {
    EngineOptions options = testing::EngineFixture::Small();
    options.retrieval.policy = "specontext";
    return options;
  }
  HeadKeysTest() { fixture_.Ingest(document_); }

  KvSpec Spec() const {
    return HeadKeySpec(*fixture_.engine().options().head, fixture_.engine().spec(),
                       fixture_.engine().model().max_positions);
  }
  uint64_t StoredTokens(const std::vector<TokenId>& tokens) {
    const auto stored = fixture_.client().Lookup(Spec(), tokens);
    EXPECT_TRUE(stored.ok()) << stored.status();
    return stored.ok() ? stored->num_tokens : 0;
  }
  std::vector<float> LogitsOf(Sequence& sequence) {
    EXPECT_EQ(sequence.Append(question_), OkStatus());
    return {sequence.logits().begin(), sequence.logits().end()};
  }

  const std::vector<TokenId> document_ = testing::RandomTokens(70, 1);
  const std::vector<TokenId> question_ = testing::RandomTokens(9, 2);
  testing::EngineFixture fixture_{{}, Options()};
};

TEST_F(HeadKeysTest, TheFirstSequenceStoresWhatTheNextOnesRead) {
  EXPECT_EQ(StoredTokens(document_), 0u);
  const auto first = fixture_.Open();
  EXPECT_EQ(StoredTokens(document_), 64u) << "whole segments";
  const auto second = fixture_.Open();
  const uint64_t keys = 64 * fixture_.engine().model().num_kv_heads *
                        fixture_.engine().model().head_dim * sizeof(float);
  EXPECT_EQ(second->stats().moved.at_open, first->stats().moved.at_open + keys);
  EXPECT_EQ(LogitsOf(*second), LogitsOf(*first)) << "computed and stored keys are the same";
  EXPECT_GT(second->stats().selections, 0u);
}

TEST_F(HeadKeysTest, APrefixOfAnotherDocumentIsRead) {
  (void)fixture_.Open();
  std::vector<TokenId> longer = document_;
  const std::vector<TokenId> more = testing::RandomTokens(30, 5);
  longer.insert(longer.end(), more.begin(), more.end());
  EXPECT_EQ(StoredTokens(longer), 64u);
  ASSERT_TRUE(fixture_.engine().Ingest(longer, {.name = "longer"}).ok());
  const auto sequence = fixture_.engine().OpenSequence(DocumentName{.name = "longer"});
  ASSERT_TRUE(sequence.ok()) << sequence.status();
  EXPECT_EQ(StoredTokens(longer), 96u);
}

TEST_F(HeadKeysTest, LostKeysAreComputedAnew) {
  const auto first = fixture_.Open();
  EXPECT_EQ(StoredTokens(document_), 64u);
  fixture_.store().EvictUnnamed();
  EXPECT_EQ(StoredTokens(document_), 0u);
  const auto second = fixture_.Open();
  EXPECT_EQ(LogitsOf(*second), LogitsOf(*first));
}

TEST_F(HeadKeysTest, AnotherHeadOrRotationHasOtherKeys) {
  const HeadWeights& head = *fixture_.engine().options().head;
  const KvSpec& pages = fixture_.engine().spec();
  EXPECT_EQ(Problem(Spec()), "");
  HeadWeights other = head;
  other.hash[3] ^= 1;
  EXPECT_FALSE(HeadKeySpec(other, pages, 512) == HeadKeySpec(head, pages, 512));
  EXPECT_FALSE(HeadKeySpec(head, pages, 1 << 20) == HeadKeySpec(head, pages, 512));
  KvSpec model = pages;
  model.weights_hash[0] ^= 1;
  EXPECT_FALSE(HeadKeySpec(head, model, 512) == HeadKeySpec(head, pages, 512));
}

}  // namespace
}  // namespace quire::worker
