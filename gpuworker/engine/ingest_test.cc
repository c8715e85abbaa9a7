// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/page/layout.h"
#include "gpuworker/testing/engine_fixture.h"

namespace quire::worker {
namespace {

using testing::EngineFixture;
using ::testing::HasSubstr;
using testing::MaxDifference;
using testing::RandomTokens;

/// Logits after a question over document "doc", with everything resident.
std::vector<float> FullLogits(EngineFixture& fixture, const std::vector<TokenId>& question) {
  SequenceOptions options;
  options.retrieval = RetrievalOptions{.policy = "full"};
  const auto sequence = fixture.Open(options);
  EXPECT_EQ(sequence->Append(question), OkStatus());
  return {sequence->logits().begin(), sequence->logits().end()};
}

TEST(IngestTest, StoredPagesAreThoseOfADensePrefill) {
  for (size_t length : {1u, 3u, 4u, 8u, 21u, 64u, 77u}) {
    SCOPED_TRACE(length);
    EngineFixture fixture;
    std::vector<TokenId> tokens = RandomTokens(length, length);
    fixture.Ingest(tokens);
    const std::vector<TokenId> question = RandomTokens(3, 99);
    const std::vector<float> logits = FullLogits(fixture, question);
    tokens.insert(tokens.end(), question.begin(), question.end());
    EXPECT_LE(MaxDifference(logits, *fixture.engine().DenseLogits(tokens, 1)), 1e-3f);
    EXPECT_EQ(fixture.store().open_contexts(), 0u);
  }
}

TEST(IngestTest, AKnownDocumentIsNeitherComputedNorSentAgain) {
  EngineFixture fixture;
  const std::vector<TokenId> tokens = RandomTokens(45, 1);
  fixture.Ingest(tokens);
  const uint64_t appended = fixture.store().calls("Store/AppendLayers");
  EXPECT_GT(appended, 0u);
  const auto again = fixture.engine().Ingest(tokens, {.name = "copy"});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->reused_tokens, 45u);
  EXPECT_EQ(again->bytes_sent, 0u);
  EXPECT_EQ(fixture.store().calls("Store/AppendLayers"), appended);
}

TEST(IngestTest, TheCollectionAndTheTimeToLiveGoToTheStore) {
  EngineFixture fixture;
  const auto put =
      fixture.engine().Ingest(RandomTokens(20, 1), {.collection = "books", .name = "doc"}, {}, 60);
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_EQ(put->document.ttl_seconds, 60u);
  EXPECT_EQ(fixture.store().last_collection(), "books");
  ASSERT_TRUE(fixture.engine().Ingest(RandomTokens(20, 2), {.name = "other"}).ok());
  EXPECT_EQ(fixture.store().last_collection(), "default");
  const auto sequence =
      fixture.engine().OpenSequence(DocumentName{.collection = "books", .name = "doc"});
  ASSERT_TRUE(sequence.ok()) << sequence.status();
  EXPECT_EQ(fixture.store().last_collection(), "books") << "what is appended is kept as it is";
}

TEST(IngestTest, ACommonPrefixIsReusedSegmentBySegment) {
  EngineFixture fixture;
  std::vector<TokenId> tokens = RandomTokens(45, 1);
  fixture.Ingest(tokens);
  for (size_t i = 30; i < tokens.size(); ++i) tokens[i] = (tokens[i] + 1) % 64;
  const auto second = fixture.engine().Ingest(tokens, {.name = "doc"});
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->reused_tokens, 24u);  // Segments of eight tokens.
  const std::vector<TokenId> question = RandomTokens(3, 99);
  const std::vector<float> logits = FullLogits(fixture, question);
  tokens.insert(tokens.end(), question.begin(), question.end());
  EXPECT_LE(MaxDifference(logits, *fixture.engine().DenseLogits(tokens, 1)), 1e-3f);
}

// Promise 8: a miss costs a recompute.
TEST(IngestTest, APrefixThatCannotBeReadIsComputed) {
  EngineFixture fixture;
  std::vector<TokenId> tokens = RandomTokens(45, 1);
  fixture.Ingest(tokens);
  tokens.push_back(7);
  fixture.store().FailOnce("Store/Fetch", 0, DataLoss("a unit is bad"));
  const auto second = fixture.engine().Ingest(tokens, {.name = "longer"});
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->reused_tokens, 0u);
  EXPECT_EQ(fixture.store().open_contexts(), 0u);
}

TEST(IngestTest, AFailureLeavesNoOpenContext) {
  EngineFixture fixture;
  for (const char* method : {"Store/AppendLayers", "Store/Seal"}) {
    fixture.store().FailOnce(method, 0, InvalidArgument("refused"));
    EXPECT_EQ(fixture.engine().Ingest(RandomTokens(45, 1), {.name = "doc"}).status().code(),
              StatusCode::kInvalidArgument);
    EXPECT_EQ(fixture.store().open_contexts(), 0u) << method;
  }
}

TEST(IngestTest, CallsStayBelowTheBatchSizeAndProgressReachesTheEnd) {
  EngineOptions options = EngineFixture::Small();
  options.prefill_chunk_tokens = 16;
  options.max_batch_bytes = 1;  // One page a call.
  EngineFixture fixture({}, options);
  std::vector<uint64_t> done;
  const auto result = fixture.engine().Ingest(
      RandomTokens(40, 1), {.name = "doc"},
      [&](const IngestProgress& progress) { done.push_back(progress.done_tokens); });
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(fixture.store().calls("Store/AppendLayers"), 10u * fixture.engine().spec().num_layers);
  EXPECT_THAT(done, ::testing::ElementsAre(0, 16, 32, 40));
}

TEST(IngestTest, TheModelGoesOnWhileLayersAreOnTheirWay) {
  EngineOptions options = EngineFixture::Small();
  options.prefill_chunk_tokens = 4;
  EngineFixture fixture({}, options);
  fixture.store().Hold("Store/AppendLayers");
  const auto result = fixture.engine().Ingest(
      RandomTokens(24, 1), {.name = "doc"}, [&](const IngestProgress& progress) {
        if (progress.done_tokens == 8) fixture.store().Release();  // Two chunks, and nothing sent.
      });
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(fixture.store().calls("Store/AppendLayers"), 12u);
  EXPECT_EQ(result->bytes_sent, SegmentBytes(fixture.engine().spec(), 6));
}

TEST(IngestTest, TheFirstFailureEndsTheSending) {
  EngineOptions options = EngineFixture::Small();
  options.prefill_chunk_tokens = 4;
  EngineFixture fixture({}, options);
  fixture.store().FailOnce("Store/AppendLayers", 3, ResourceExhausted("the disk is full"));
  const Status status = fixture.engine().Ingest(RandomTokens(200, 1), {.name = "doc"}).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(fixture.store().calls("Store/AppendLayers"), 4u) << "what waited was dropped";
  EXPECT_EQ(fixture.store().open_contexts(), 0u);
}

TEST(IngestTest, BadTokensAreRefusedBeforeAnythingIsSent) {
  EngineFixture fixture;
  const auto message = [&](const std::vector<TokenId>& tokens) {
    const Status status = fixture.engine().Ingest(tokens, {.name = "doc"}).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(message({}), HasSubstr("no tokens"));
  EXPECT_THAT(message({1, 64}), HasSubstr("token 1 has id 64; the model knows 0 to 63"));
  EXPECT_THAT(message({-1}), HasSubstr("id -1"));
  EXPECT_THAT(message(RandomTokens(513, 1)),
              HasSubstr("513 tokens are more than the model's context of 512"));
  EXPECT_EQ(fixture.store().calls("Store/Lookup"), 0u);
}

}  // namespace
}  // namespace quire::worker
