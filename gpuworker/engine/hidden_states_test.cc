// SPDX-License-Identifier: Apache-2.0
//
// Sequences whose retrieval head sees the model's hidden states.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "gpuworker/engine/batch/batch.h"
#include "gpuworker/engine/head_keys.h"
#include "gpuworker/testing/engine_fixture.h"

namespace quire::worker {
namespace {

/// The parameter is EngineOptions::question_chunk_tokens: a dense question has passes of many
/// tokens, whose hidden states the head sees behind them.
class HiddenStatesTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  static EngineOptions Options(uint32_t question_chunk) {
    EngineOptions options = testing::EngineFixture::Small();
    options.retrieval.policy = "specontext";
    options.question_chunk_tokens = question_chunk;
    return options;
  }
  HiddenStatesTest() { fixture_.Ingest(document_); }

  const std::vector<TokenId> document_ = testing::RandomTokens(70, 1);
  const std::vector<TokenId> question_ = testing::RandomTokens(9, 2);
  testing::EngineFixture fixture_{{}, Options(GetParam()), &CpuDevice(), HeadMode::kEagle};
};

TEST_P(HiddenStatesTest, PassesOfAnySizeSelectTheSame) {
  const auto at_once = fixture_.Open(), one_by_one = fixture_.Open();
  ASSERT_EQ(at_once->Append(question_), OkStatus());
  for (const TokenId token : question_) ASSERT_EQ(one_by_one->Append({&token, 1}), OkStatus());
  if (GetParam() > 0) return;  // A dense question attends to more.
  EXPECT_EQ(testing::MaxDifference(at_once->logits(), one_by_one->logits()), 0);
  EXPECT_GT(at_once->stats().selections, 0u);
  EXPECT_EQ(at_once->stats().units_missed, one_by_one->stats().units_missed);
}

TEST_P(HiddenStatesTest, ASequenceThatIsOpenedAgainSelectsTheSame) {
  const auto kept = fixture_.Open(), lost = fixture_.Open();
  ASSERT_EQ(kept->Append(std::span(question_).first(4)), OkStatus());
  ASSERT_EQ(lost->Append(std::span(question_).first(4)), OkStatus());
  ASSERT_EQ(kept->Append(std::span(question_).subspan(4)), OkStatus());
  fixture_.store().Restart();
  ASSERT_EQ(lost->Append(std::span(question_).subspan(4)), OkStatus());
  EXPECT_EQ(lost->stats().reopened, 1u);
  EXPECT_LT(testing::MaxDifference(kept->logits(), lost->logits()), 1e-4f);
}

TEST_P(HiddenStatesTest, TheSecondSequenceReadsWhatTheFirstOneComputed) {
  const HeadWeights& head = *fixture_.engine().options().head;
  const uint64_t key_values = uint64_t{head.config.num_kv_heads} * head.config.head_dim;
  const uint64_t kept = fixture_.engine().options().retrieval.selection_memory;
  const uint64_t bytes = (document_.size() * key_values + kept * head.num_features) * sizeof(float);
  const auto first = fixture_.Open(), second = fixture_.Open();
  EXPECT_EQ(second->stats().moved.at_open, first->stats().moved.at_open + bytes);
  ASSERT_EQ(first->Append(question_), OkStatus());
  ASSERT_EQ(second->Append(question_), OkStatus());
  EXPECT_EQ(testing::MaxDifference(first->logits(), second->logits()), 0);
  const auto tokens = first->Generate({.max_new_tokens = 4});
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_EQ(second->Generate({.max_new_tokens = 4})->tokens, tokens->tokens);
  EXPECT_GT(second->stats().selections, 0u);
}

TEST_P(HiddenStatesTest, WhatIsLostOrOfAnotherHeadIsComputedAnew) {
  const auto first = fixture_.Open();
  const uint64_t computed = first->stats().moved.at_open;
  fixture_.store().EvictUnnamed();
  EXPECT_EQ(fixture_.Open()->stats().moved.at_open, computed);
  EXPECT_GT(fixture_.Open()->stats().moved.at_open, computed) << "it was stored again";
  const auto stored = fixture_.client().GetExtra({.name = "doc"}, kHeadKeysExtra);
  ASSERT_TRUE(stored.ok()) << stored.status();
  const Slice record = stored->payload.Flatten();
  std::vector<std::byte> other(record.bytes.begin(), record.bytes.end());
  other[0] ^= std::byte{1};
  for (const size_t size : {other.size(), size_t{40}, size_t{0}}) {
    other.resize(size);
    Payload payload;
    payload.Append(std::vector<std::byte>(other));
    ASSERT_TRUE(fixture_.client().PutExtra({.name = "doc"}, kHeadKeysExtra, 1, payload).ok());
    EXPECT_EQ(fixture_.Open()->stats().moved.at_open, computed) << size;
  }
}

TEST_P(HiddenStatesTest, ABatchGeneratesWhatASequenceDoes) {
  const auto sequence = fixture_.Open();
  ASSERT_EQ(sequence->Append(question_), OkStatus());
  const auto alone = sequence->Generate({.max_new_tokens = 6});
  ASSERT_TRUE(alone.ok()) << alone.status();
  auto batch = Batch::Create(&fixture_.engine(), BatchLimits{});
  ASSERT_TRUE(batch.ok()) << batch.status();
  std::vector<std::shared_ptr<BatchStream>> streams;
  for (int i = 0; i < 2; ++i) {
    auto stream = (*batch)->Submit({.document = DocumentName{.name = "doc"},
                                    .prompt = question_,
                                    .params = {.max_new_tokens = 6}});
    ASSERT_TRUE(stream.ok()) << stream.status();
    streams.push_back(*stream);
  }
  while ((*batch)->Step()) {
  }
  for (const auto& stream : streams) {
    std::vector<TokenId> tokens;
    for (auto token = stream->Next(); token.ok() && *token; token = stream->Next()) {
      tokens.push_back(**token);
    }
    EXPECT_EQ(tokens, alone->tokens);
  }
}

INSTANTIATE_TEST_SUITE_P(ShortAndDenseQuestions, HiddenStatesTest, ::testing::Values(0, 5));

}  // namespace
}  // namespace quire::worker
