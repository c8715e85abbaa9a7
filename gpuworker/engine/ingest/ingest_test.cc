// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "gpuworker/engine/ingest/represented_pages.h"
#include "gpuworker/model/dense_cache.h"
#include "gpuworker/testing/engine_fixture.h"
#include "quire/layout.h"
#include "quire/session.h"

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
  const auto put = fixture.engine().Ingest(
      RandomTokens(20, 1), {.collection = "books", .name = "doc"}, {}, {.ttl_seconds = 60});
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
  const auto result = fixture.engine().Ingest(RandomTokens(40, 1), {.name = "doc"},
                                              [&](const IngestProgress& progress) {
                                                done.push_back(progress.done_tokens);
                                                return true;
                                              });
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
        return true;
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

TEST(IngestTest, OneThatIsStoppedSendsWhatItComputedAndRegistersNothing) {
  EngineOptions options = EngineFixture::Small();
  options.prefill_chunk_tokens = 16;
  options.max_batch_bytes = 1;  // One page a call.
  EngineFixture fixture({}, options);
  const auto stopped = fixture.engine().Ingest(
      RandomTokens(100, 1), {.name = "doc"},
      [](const IngestProgress& progress) { return progress.done_tokens < 48; });
  EXPECT_EQ(stopped.status().code(), StatusCode::kCancelled);
  EXPECT_THAT(std::string(stopped.status().message()), HasSubstr("after 48 of 100 tokens"));
  EXPECT_EQ(fixture.store().calls("Store/AppendLayers"), 12u * fixture.engine().spec().num_layers);
  EXPECT_EQ(fixture.store().open_contexts(), 0u);
  EXPECT_FALSE(fixture.client().GetDocument({.name = "doc"}).ok());
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

/// Representatives of `pages` of `tokens`, found by another prefill than Ingest's: dense, and a few
/// tokens at a time.
std::vector<std::byte> RepresentedAlone(const EngineFixture& fixture,
                                        const std::vector<TokenId>& tokens, uint32_t first,
                                        PageRange pages) {
  const KvSpec& spec = fixture.engine().spec();
  const uint32_t start = first * spec.page_tokens;
  DenseCache dense(fixture.engine().model(), &CpuDevice(), tokens.size());
  RepresentedPages represented(&dense, spec, &CpuDevice(), first);
  for (size_t at = 0; at < tokens.size();) {
    const size_t count = std::min<size_t>(at < start ? start - at : 5, tokens.size() - at);
    AttentionBackend& attention = at < start ? static_cast<AttentionBackend&>(dense) : represented;
    EXPECT_EQ(fixture.decoder().Forward(std::span(tokens).subspan(at, count), at, attention,
                                        Decoder::Logits::kNone, nullptr),
              OkStatus());
    at += count;
  }
  represented.Finish();
  return represented.Digests(pages);
}

std::vector<float> AsFloats(std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// Representatives of the pages [0, end) of document "doc" at every layer, as the store has them.
std::vector<float> StoredRepresentatives(EngineFixture& fixture, uint32_t end) {
  const KvSpec& spec = fixture.engine().spec();
  const auto document = fixture.client().GetDocument({.name = "doc"});
  EXPECT_TRUE(document.ok()) << document.status();
  auto session = fixture.client().OpenSession(ContextRef(document->chain_tip),
                                              {.spec = spec, .slots_per_head = 1});
  EXPECT_TRUE(session.ok()) << session.status();
  std::vector<uint32_t> layers(spec.num_layers);
  std::iota(layers.begin(), layers.end(), 0u);
  const auto digests =
      (*session)->Digests(layers, 0, end, 0, 0, kernels::DigestKind::kRepresentatives);
  EXPECT_TRUE(digests.ok()) << digests.status();
  return AsFloats(digests->Flatten().bytes);
}

EngineOptions WithRepresentatives() {
  EngineOptions options = EngineFixture::Small();
  options.representatives = true;
  options.prefill_chunk_tokens = 16;
  return options;
}

TEST(IngestTest, RepresentativesAreThoseThatTheDocumentsOwnQueriesFind) {
  for (const size_t length : {3u, 64u, 173u}) {
    SCOPED_TRACE(length);
    EngineFixture fixture({}, WithRepresentatives());
    const std::vector<TokenId> tokens = RandomTokens(length, length);
    fixture.Ingest(tokens);
    const uint32_t pages = PageCount(fixture.engine().spec(), length);
    EXPECT_EQ(fixture.store().calls("Store/PutRepresentatives"), (pages + 1) / 2);
    EXPECT_LE(MaxDifference(StoredRepresentatives(fixture, pages),
                            AsFloats(RepresentedAlone(fixture, tokens, 0, {0, pages}))),
              1e-4f);
  }
  EngineFixture without;
  without.Ingest(RandomTokens(64, 1));
  EXPECT_EQ(without.store().calls("Store/PutRepresentatives"), 0u);
}

TEST(IngestTest, APolicyThatScoresByRepresentativesHasThemFound) {
  EngineOptions options = EngineFixture::Small();
  options.retrieval.policy = "infllm";
  EngineFixture fixture({}, options);
  fixture.Ingest(RandomTokens(64, 1));
  EXPECT_EQ(fixture.store().calls("Store/PutRepresentatives"), 8u);
  const auto sequence = fixture.Open();
  ASSERT_EQ(sequence->Append(RandomTokens(9, 2)), OkStatus());
  const KvSpec& spec = fixture.engine().spec();
  EXPECT_EQ(sequence->stats().moved.digests,
            16 * spec.num_layers * spec.num_kv_heads * spec.head_dim * sizeof(float));
}

// Segments have what they were given when they were computed, and only the others are looked at.
TEST(IngestTest, ReusedPagesKeepTheirRepresentatives) {
  EngineFixture fixture({}, WithRepresentatives());
  std::vector<TokenId> tokens = RandomTokens(45, 1);
  fixture.Ingest(tokens);
  const std::vector<float> first = StoredRepresentatives(fixture, 6);
  for (size_t i = 30; i < tokens.size(); ++i) tokens[i] = (tokens[i] + 1) % 64;
  fixture.Ingest(tokens);
  EXPECT_EQ(fixture.store().calls("Store/PutRepresentatives"), 6u + 3u);
  EXPECT_EQ(StoredRepresentatives(fixture, 6), first);
  const std::vector<float> all = StoredRepresentatives(fixture, 12);
  const std::vector<float> own = AsFloats(RepresentedAlone(fixture, tokens, 6, {6, 12}));
  const size_t layers = fixture.engine().spec().num_layers;
  for (size_t layer = 0; layer < layers; ++layer) {
    const size_t of_layer = own.size() / layers;
    EXPECT_LE(MaxDifference(std::span(all).subspan((2 * layer + 1) * of_layer, of_layer),
                            std::span(own).subspan(layer * of_layer, of_layer)),
              1e-4f);
  }
}

TEST(IngestTest, ADocumentIsGoodWithoutItsRepresentativesAndSaysSo) {
  EngineFixture fixture({}, WithRepresentatives());
  fixture.store().FailOnce("Store/PutRepresentatives", 1, ResourceExhausted("the disk is full"));
  const std::vector<TokenId> tokens = RandomTokens(45, 1);
  const auto result = fixture.engine().Ingest(tokens, {.name = "doc"});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->representatives.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(fixture.store().calls("Registry/Register"), 1u);
  EXPECT_EQ(StoredRepresentatives(fixture, 12).size(),
            AsFloats(RepresentedAlone(fixture, tokens, 0, {0, 12})).size());
  EXPECT_EQ(fixture.store().open_contexts(), 0u);
}

}  // namespace
}  // namespace quire::worker
