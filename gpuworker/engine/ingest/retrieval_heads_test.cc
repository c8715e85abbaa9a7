// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/ingest/retrieval_heads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpuworker/testing/engine_fixture.h"
#include "tests/kit/paths.h"

namespace quire::worker {
namespace {

using ::testing::ElementsAre;

TEST(RetrievalHeadsTest, TheBundledModelHasHeadsThatLookBackAndHeadsThatDoNot) {
  const auto decoder = Decoder::Load(QUIRE_BUNDLED_MODEL, &CpuDevice());
  ASSERT_TRUE(decoder.ok()) << decoder.status();
  const auto scores = ScoreHeads(**decoder, &CpuDevice());
  ASSERT_TRUE(scores.ok()) << scores.status();
  ASSERT_EQ(scores->induction.size(), 8u);  // 4 layers of 2 KV heads.
  const std::vector<uint32_t> heads = RetrievalHeads(*scores);
  ASSERT_EQ(heads.size(), 2u);
  float least = 1, most_of_others = 0;
  for (uint32_t head = 0; head < 8; ++head) {
    const bool chosen = std::ranges::find(heads, head) != heads.end();
    SCOPED_TRACE(::testing::Message() << "head " << head << " induction " << scores->induction[head]
                                      << " echo " << scores->echo[head]);
    EXPECT_GE(scores->induction[head], 0);
    EXPECT_LE(scores->induction[head], 1);
    if (chosen) least = std::min(least, scores->induction[head]);
    if (!chosen) most_of_others = std::max(most_of_others, scores->induction[head]);
  }
  EXPECT_GT(least, most_of_others);
  EXPECT_GT(least, 0.1f) << "three places of 512 would get 0.006 by chance";
  EXPECT_EQ(ScoreHeads(**decoder, &CpuDevice())->induction, scores->induction);
}

TEST(RetrievalHeadsTest, OneOfAHundredEchoesFourteenInduceAndNoneIsTakenTwice) {
  HeadScores scores{.echo = std::vector<float>(100), .induction = std::vector<float>(100)};
  scores.echo[40] = 0.9f;
  scores.echo[41] = 0.8f;
  scores.induction[40] = 1.0f;
  for (size_t i = 0; i < 14; ++i) scores.induction[99 - 7 * i] = 0.5f;
  std::vector<uint32_t> expected = {40};
  for (uint32_t i = 0; i < 14; ++i) expected.push_back(99 - 7 * i);
  std::ranges::sort(expected);
  EXPECT_EQ(RetrievalHeads(scores), expected);
  EXPECT_THAT(RetrievalHeads({.echo = {0, 0, 0}, .induction = {0.1f, 0.3f, 0.2f}}), ElementsAre(1));
}

TEST(RetrievalHeadsTest, ASequenceUnderRazorKeepsEveryPageInThem) {
  testing::EngineFixture fixture;
  fixture.Ingest(testing::RandomTokens(61, 1));
  HeadCalibration calibration(&fixture.decoder(), &CpuDevice());
  const auto heads = calibration.Heads();
  ASSERT_TRUE(heads.ok()) << heads.status();
  SequenceOptions options;
  options.retrieval = fixture.engine().options().retrieval;
  options.retrieval->policy = "razor";
  const auto found = fixture.Open(options);
  options.retrieval->retrieval_heads = *heads;
  const auto named = fixture.Open(options);
  const uint32_t other = heads->front() == 0 ? 1 : 0;
  options.retrieval->retrieval_heads = {other};
  const auto differently = fixture.Open(options);
  const std::vector<TokenId> question = testing::RandomTokens(20, 2);
  for (const auto& sequence : {found.get(), named.get(), differently.get()}) {
    ASSERT_EQ(sequence->Append(question), OkStatus());
  }
  EXPECT_EQ(testing::MaxDifference(found->logits(), named->logits()), 0);
  EXPECT_GT(testing::MaxDifference(found->logits(), differently->logits()), 1e-6f);
}

}  // namespace
}  // namespace quire::worker
