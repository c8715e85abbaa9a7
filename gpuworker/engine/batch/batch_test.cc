// SPDX-License-Identifier: Apache-2.0
//
// Batch: many sequences at a time generate what each generates alone, whatever happens to the
// others.
#include "gpuworker/engine/batch/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>

#include "common/base/retry_hint.h"
#include "gpuworker/retrieval/policy.h"
#include "gpuworker/testing/batch_fixture.h"

namespace quire::worker {
namespace {

using testing::BatchTest;
using testing::EngineFixture;
using ::testing::HasSubstr;
using testing::RandomTokens;
using testing::Stream;

TEST_F(BatchTest, EverySequenceGeneratesWhatItGeneratesAlone) {
  std::vector<BatchRequest> requests;
  uint64_t seed = 10;
  for (const std::string_view policy : AllPolicyNames()) {
    RetrievalOptions retrieval = Retrieval(policy);
    retrieval.budget_tokens = seed % 2 == 0 ? 24 : 32;
    if (seed % 3 == 0) retrieval.uncompressed_layers = {0};
    requests.push_back(Request(seed, 1 + seed * 7 % 23, static_cast<uint32_t>(5 + seed % 9),
                               std::move(retrieval)));
    ++seed;
  }
  requests.push_back({.prompt = RandomTokens(9, 99), .params = {.max_new_tokens = 12}});
  requests.push_back(Request(98, 3, 9));
  requests.back().params.temperature = 0.8f;
  requests.back().params.seed = 5;
  const auto batch = Make({.max_running = 5, .step_tokens = 20});
  ExpectAsAlone(*batch, requests);
  EXPECT_EQ(Value(*batch, "batch_finished"), requests.size());
  EXPECT_EQ(Value(*batch, "batch_running"), 0u);
  EXPECT_GT(Value(*batch, "batch_steps{sequences=\"4-7\"}"), 0u);
  EXPECT_EQ(fixture_.store().open_contexts(), 0u);
  EXPECT_EQ(fixture_.store().open_sessions(), 0u);
}

TEST_F(BatchTest, SequencesThatComeLaterJoinThoseThatRun) {
  const auto batch = Make();
  const BatchRequest first = Request(3, 20, 12);
  const BatchRequest second = Request(4, 6, 12);
  const Stream a = Submit(*batch, first);
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(batch->Step());
  const Stream b = Submit(*batch, second);
  RunToTheEnd(*batch);
  EXPECT_EQ(Read(*a), Alone(first));
  EXPECT_EQ(Read(*b), Alone(second));
}

TEST_F(BatchTest, ARecallOfALayerIsOneRequestForTheWholeBatch) {
  const auto batch = Make();
  std::vector<Stream> streams;
  for (uint64_t i = 0; i < 6; ++i) streams.push_back(Submit(*batch, Request(20 + i, 1, 30)));
  ASSERT_TRUE(batch->Step());  // They have come, and generate.
  EXPECT_EQ(fixture_.store().open_sessions(), 1u);
  const uint64_t before = fixture_.store().calls("Session/Recall");
  constexpr uint64_t kSteps = 12;
  for (uint64_t i = 0; i < kSteps; ++i) ASSERT_TRUE(batch->Step());
  const uint64_t layers = fixture_.engine().spec().num_layers;
  const uint64_t messages = fixture_.store().calls("Session/Recall") - before;
  EXPECT_LE(messages, kSteps * layers);
  EXPECT_GT(Value(*batch, "batch_recall_lanes"), 3 * Value(*batch, "batch_recall_messages"));
  RunToTheEnd(*batch);
  EXPECT_EQ(Value(*batch, "batch_recall_messages"), fixture_.store().calls("Session/Recall"));
}

/// The parameter is the tokens of a page; with one, every token opens a page.
class BatchPagesTest : public BatchTest, public ::testing::WithParamInterface<uint32_t> {
 protected:
  BatchPagesTest() : BatchTest(&CpuDevice(), WithPages(GetParam())) {}
  static EngineOptions WithPages(uint32_t page_tokens) {
    EngineOptions options = EngineFixture::Small();
    options.page_tokens = page_tokens;
    options.segment_pages = 8 / page_tokens;
    return options;
  }
};

TEST_P(BatchPagesTest, WhatAHeadChoseIsOneRequestForAllLayersOfTheWholeBatch) {
  const auto batch = Make();
  std::vector<BatchRequest> requests;
  std::vector<Stream> streams;
  for (uint64_t i = 0; i < 6; ++i) {
    requests.push_back(Request(20 + i, 1 + i % 3, 30, Retrieval("specontext")));
    streams.push_back(Submit(*batch, requests.back()));
  }
  ASSERT_GT(fixture_.engine().spec().num_layers, 1u);
  ASSERT_TRUE(batch->Step());  // They have come, and generate.
  const uint64_t before = fixture_.store().calls("Session/Recall");
  uint64_t last = before;
  for (int step = 0; step < 24; ++step) {
    ASSERT_TRUE(batch->Step());
    const uint64_t now = fixture_.store().calls("Session/Recall");
    EXPECT_LE(now - last, 1u) << "step " << step;
    last = now;
  }
  EXPECT_GT(last, before);
  RunToTheEnd(*batch);
  for (size_t i = 0; i < requests.size(); ++i) EXPECT_EQ(Read(*streams[i]), Alone(requests[i]));
}

INSTANTIATE_TEST_SUITE_P(PageTokens, BatchPagesTest, ::testing::Values(1, 2, 4));

TEST_F(BatchTest, WhoEndsDisturbsNobodysRecalls) {
  const auto batch = Make();
  std::vector<Stream> streams;
  for (uint32_t i = 0; i < 5; ++i) {
    streams.push_back(Submit(*batch, Request(24 + i, 2, 9 + 4 * i, Retrieval("freekv"))));
  }
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(batch->Step());
  streams[4]->Cancel();
  RunToTheEnd(*batch);
  uint64_t asked = 0;
  for (const Stream& stream : streams) asked += stream->result().stats.recalls;
  EXPECT_EQ(Value(*batch, "batch_recall_lanes"), asked);  // Nothing was asked for twice.
}

TEST_F(BatchTest, ARecallOfALayerIsOneRequestWhateverTheBudgetsAre) {
  const auto batch = Make();
  std::vector<BatchRequest> requests;
  std::vector<Stream> streams;
  for (const uint32_t budget : {24, 32, 40}) {  // 3, 5 and 7 pages are selected.
    requests.push_back(Request(budget, 1, 30, WithBudget(budget)));
    streams.push_back(Submit(*batch, requests.back()));
  }
  ASSERT_TRUE(batch->Step());  // They have come, and generate.
  EXPECT_EQ(fixture_.store().open_sessions(), 1u);
  const uint64_t before = fixture_.store().calls("Session/Recall");
  const uint64_t lanes = Value(*batch, "batch_recall_lanes");
  constexpr uint64_t kSteps = 12;
  for (uint64_t i = 0; i < kSteps; ++i) ASSERT_TRUE(batch->Step());
  const uint64_t layers = fixture_.engine().spec().num_layers;
  const uint64_t messages = fixture_.store().calls("Session/Recall") - before;
  EXPECT_LE(messages, kSteps * layers);
  EXPECT_GT(Value(*batch, "batch_recall_lanes") - lanes, messages);
  RunToTheEnd(*batch);
  EXPECT_EQ(Value(*batch, "batch_recall_messages"), fixture_.store().calls("Session/Recall"));
  EXPECT_EQ(fixture_.store().open_sessions(), 0u);
  for (size_t i = 0; i < requests.size(); ++i) EXPECT_EQ(Read(*streams[i]), Alone(requests[i]));
}

// Some heads of a step block and others do not; their selections are asked for apart.
TEST_F(BatchTest, WithSpeculationALayersRecallsAreACorrectionAndAPrefetchAtMost) {
  const KvSpec& spec = fixture_.engine().spec();
  RetrievalOptions retrieval = Retrieval("freekv");
  retrieval.correction_threshold = 0.5f;
  std::map<std::pair<uint32_t, Priority>, uint64_t> sent, messages;  // By layer and priority.
  fixture_.WatchRecalls([&](const v1::RecallRequest& request, Priority priority) {
    std::set<uint32_t> layers;
    for (const v1::LayerWant& want : request.wants()) layers.insert(want.first_layer());
    for (const uint32_t layer : layers) ++sent[{layer, priority}];
    return false;
  });
  for (const uint64_t sequences : {1u, 3u, 8u}) {
    SCOPED_TRACE(sequences);
    const auto batch = Make();
    std::vector<BatchRequest> requests;
    std::vector<Stream> streams;
    for (uint64_t i = 0; i < sequences; ++i) {
      requests.push_back(Request(20 + i, 1, 30, retrieval));
      streams.push_back(Submit(*batch, requests.back()));
    }
    ASSERT_TRUE(batch->Step());  // They have come, and generate.
    const auto heads_blocked = [&] {
      uint64_t heads = 0;
      for (const SequenceStats& stats : batch->Stats()) heads += stats.blocking_heads;
      return heads;
    };
    const uint64_t blocked = heads_blocked();
    const uint64_t lanes = Value(*batch, "batch_recall_lanes");
    constexpr uint64_t kSteps = 12;
    messages.clear();
    for (uint64_t i = 0; i < kSteps; ++i) {
      sent.clear();
      ASSERT_TRUE(batch->Step());
      for (const auto& [what, count] : sent) {
        EXPECT_EQ(count, 1u) << "layer " << what.first << " in step " << i;
        EXPECT_NE(what.second, Priority::kNormal);
        messages[what] += count;
      }
    }
    uint64_t all = 0;
    for (uint32_t layer = 0; layer < spec.num_layers; ++layer) {
      EXPECT_GT(messages[(std::pair{layer, Priority::kCorrection})], 0u) << layer;
      EXPECT_GT(messages[(std::pair{layer, Priority::kPrefetch})], 0u) << layer;
    }
    for (const auto& [what, count] : messages) all += count;
    EXPECT_LE(all, 2 * kSteps * spec.num_layers);
    EXPECT_GE(Value(*batch, "batch_recall_lanes") - lanes, all * sequences / 2);
    const uint64_t heads = sequences * kSteps * spec.num_layers * spec.num_kv_heads;
    EXPECT_GT(heads_blocked(), blocked) << "nothing was corrected";
    EXPECT_LT(heads_blocked() - blocked, heads) << "everything was corrected";
    RunToTheEnd(*batch);
    for (size_t i = 0; i < requests.size(); ++i) EXPECT_EQ(Read(*streams[i]), Alone(requests[i]));
  }
}

TEST_F(BatchTest, BudgetsMixWhereUnitsLandInAStagingArea) {
  fixture_.LandDirectly();
  const auto batch = Make();
  std::vector<BatchRequest> requests;
  std::vector<Stream> streams;
  for (const uint32_t budget : {32, 24, 40, 28}) {  // Rooms for 8, 4, 8 and 4 pages.
    requests.push_back(Request(budget, 3, 12, WithBudget(budget)));
    streams.push_back(Submit(*batch, requests.back()));
  }
  ASSERT_TRUE(batch->Step());
  EXPECT_EQ(fixture_.store().open_sessions(), 2u);
  RunToTheEnd(*batch);
  for (size_t i = 0; i < requests.size(); ++i) {
    const std::vector<TokenId> tokens = Read(*streams[i]);
    EXPECT_GT(streams[i]->result().stats.units_landed, 0u);
    EXPECT_EQ(tokens, Alone(requests[i]));
  }
}

TEST_F(BatchTest, WhoHasSlotsInOtherLayersHasAnotherSession) {
  const auto batch = Make();
  RetrievalOptions other = Retrieval();
  other.uncompressed_layers = {0};
  Submit(*batch, Request(1, 1, 4));
  Submit(*batch, Request(2, 1, 4, other));
  Submit(*batch, Request(3, 1, 4));
  ASSERT_TRUE(batch->Step());
  EXPECT_EQ(fixture_.store().open_sessions(), 2u);
  RunToTheEnd(*batch);
  EXPECT_EQ(fixture_.store().open_sessions(), 0u);
}

/// Slots of two sequences of the small budget that keep layer 0 and have `tokens` tokens each.
uint64_t SlotsOfTwo(const KvSpec& spec, uint64_t tokens) {
  const uint64_t page = uint64_t{2} * spec.num_kv_heads * spec.head_dim * 4 * spec.page_tokens;
  return 2 * page * (6 + (tokens + spec.page_tokens - 1) / spec.page_tokens);
}

TEST_F(BatchTest, PreemptionChangesNoToken) {
  for (const std::string_view policy : AllPolicyNames()) {
    if (policy == "full") continue;  // Keeps every layer: nothing of the size below fits.
    SCOPED_TRACE(policy);
    RetrievalOptions retrieval = Retrieval(policy);
    retrieval.uncompressed_layers = {0};
    uint64_t bytes = SlotsOfTwo(fixture_.engine().spec(), 74);
    if (policy == "razor") bytes *= 8;  // Has room for every page in layers of retrieval heads.
    const auto batch = Make({.step_tokens = 32, .slot_bytes = bytes});
    ExpectAsAlone(*batch, {Request(31, 5, 24, retrieval), Request(32, 7, 20, retrieval),
                           Request(33, 3, 24, retrieval)});
    if (policy != "razor") {
      EXPECT_GT(Value(*batch, "batch_preempted"), 0u);
    }
    EXPECT_EQ(Value(*batch, "batch_restarted"), 0u);
  }
}

TEST_F(BatchTest, AHigherPriorityGoesFirstAndTheOtherGoesOnAsIfNothingHadHappened) {
  for (const std::string_view policy : {"quest", "freekv", "raas", "shadowkv"}) {
    SCOPED_TRACE(policy);
    const auto batch = Make({.max_running = 1});
    const BatchRequest low = Request(41, 6, 30, Retrieval(policy));
    BatchRequest high = Request(42, 6, 10, Retrieval(policy));
    high.priority = 1;
    const Stream slow = Submit(*batch, low);
    for (int i = 0; i < 11; ++i) ASSERT_TRUE(batch->Step());
    const Stream fast = Submit(*batch, high);
    ASSERT_TRUE(batch->Step());
    EXPECT_EQ(Value(*batch, "batch_suspended"), 1u);
    RunToTheEnd(*batch);
    EXPECT_EQ(Read(*fast), Alone(high));
    EXPECT_EQ(Read(*slow), Alone(low));
    EXPECT_EQ(slow->result().preempted, 1u);
    EXPECT_EQ(fast->result().preempted, 0u);
  }
}

TEST_F(BatchTest, ACancelledSequenceEndsWithinAStepAndTheOthersGoOn) {
  const auto batch = Make();
  const BatchRequest request = Request(51, 4, 20);
  const Stream other = Submit(*batch, request);
  const Stream cancelled = Submit(*batch, Request(52, 4, 400));
  const Stream waiting = Submit(*batch, Request(53, 4, 20));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(batch->Step());
  cancelled->Cancel();
  waiting->Cancel();
  ASSERT_TRUE(batch->Step());
  EXPECT_EQ(Value(*batch, "batch_running"), 1u);
  EXPECT_EQ(Value(*batch, "batch_cancelled"), 2u);
  EXPECT_EQ(cancelled->Next().status().code(), StatusCode::kCancelled);
  RunToTheEnd(*batch);
  EXPECT_EQ(Read(*other), Alone(request));
}

TEST_F(BatchTest, FailuresOfAnyKindChangeNoToken) {
  for (const char* method : {"Session/Recall", "Store/AppendPages", "Session/AddSequence",
                             "Store/Fetch", "Session/Digests", "Store/OpenContext"}) {
    for (const Status& failure : {NotFound("gone"), DataLoss("unit"), FailedPrecondition("stale"),
                                  Unavailable("away"), DeadlineExceeded("late")}) {
      SCOPED_TRACE(std::string(method) + " " + failure.ToString());
      const auto batch = Make();
      fixture_.store().FailOnce(method, 1, failure);
      ExpectAsAlone(*batch,
                    {Request(61, 5, 9), Request(62, 5, 9, Retrieval("freekv")), Request(63, 5, 9)});
      EXPECT_EQ(Value(*batch, "batch_failed"), 0u);
    }
  }
}

TEST_F(BatchTest, ALossOfThePagesAppendedIsMadeUpForByRunningAgain) {
  const auto batch = Make();
  const BatchRequest one = Request(64, 5, 12);
  const BatchRequest two = Request(65, 5, 12);
  const Stream a = Submit(*batch, one);
  const Stream b = Submit(*batch, two);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(batch->Step());
  fixture_.store().FailOnce("Store/AppendPages", 0, NotFound("the context idled too long"));
  RunToTheEnd(*batch);
  EXPECT_EQ(Value(*batch, "batch_restarted"), 1u);
  EXPECT_EQ(Read(*a), Alone(one));
  EXPECT_EQ(Read(*b), Alone(two));
  EXPECT_EQ(a->result().stats.reopened + b->result().stats.reopened, 1u);
}

TEST_F(BatchTest, ARestartedServerCostsARerunOfEverySequence) {
  const auto batch = Make();
  const BatchRequest one = Request(66, 5, 12);
  const BatchRequest two = Request(67, 9, 12);
  const Stream a = Submit(*batch, one);
  const Stream b = Submit(*batch, two);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(batch->Step());
  fixture_.store().Restart();
  RunToTheEnd(*batch);
  EXPECT_EQ(Value(*batch, "batch_restarted"), 2u);
  EXPECT_EQ(Read(*a), Alone(one));
  EXPECT_EQ(Read(*b), Alone(two));
  EXPECT_EQ(fixture_.store().open_sessions(), 0u);
}

TEST_F(BatchTest, PromptsWithoutADocumentAttendDenselyChunkByChunk) {
  const auto batch = Make({.step_tokens = 32});
  BatchRequest bare = Request(81, 100, 12);
  bare.document.reset();
  const BatchRequest other = Request(82, 5, 40);
  const Stream a = Submit(*batch, other), b = Submit(*batch, bare);
  const auto stats = [&] { return batch->Stats().back(); };
  ASSERT_TRUE(batch->Step());
  EXPECT_EQ(stats().context_tokens, 28u) << "all that the other leaves; the window is of 8";
  while (stats().context_tokens < 89) ASSERT_TRUE(batch->Step());
  const uint64_t dense_bytes = Value(*batch, "batch_slot_bytes");
  while (stats().generated_tokens == 0) ASSERT_TRUE(batch->Step());
  EXPECT_EQ(stats().selections, 0u);
  EXPECT_LT(Value(*batch, "batch_slot_bytes"), dense_bytes / 2) << "it is within its budget now";
  RunToTheEnd(*batch);
  EXPECT_EQ(Read(*a), Alone(other));
  EXPECT_EQ(Read(*b), Alone(bare));
}

TEST_F(BatchTest, FailuresAroundADensePromptChangeNoToken) {
  BatchRequest bare = Request(86, 60, 8);
  bare.document.reset();
  const std::vector<TokenId> expected = Alone(bare);
  for (const char* method :
       {"Store/AppendPages", "Store/Fetch", "Session/Open", "Session/Digests", "Session/Recall"}) {
    SCOPED_TRACE(method);
    const auto batch = Make({.step_tokens = 16});
    const Stream stream = Submit(*batch, bare);
    ASSERT_TRUE(batch->Step());
    fixture_.store().FailOnce(method, 0, DataLoss("a unit is bad"));
    RunToTheEnd(*batch);
    EXPECT_EQ(Read(*stream), expected);
    // A recall that came damaged is asked for once more.
    const bool mended = std::string_view(method) == "Session/Recall";
    EXPECT_EQ(Value(*batch, "batch_restarted"), mended ? 0u : 1u);
  }
  const auto batch = Make({.step_tokens = 16});
  const Stream stream = Submit(*batch, bare);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(batch->Step());
  fixture_.store().Restart();
  RunToTheEnd(*batch);
  EXPECT_EQ(Read(*stream), expected);
  EXPECT_EQ(fixture_.store().open_contexts(), 0u);
  EXPECT_EQ(fixture_.store().open_sessions(), 0u);
}

TEST_F(BatchTest, APromptThatNothingFollowsKeepsItsPagesToTheEnd) {
  const auto batch = Make({.step_tokens = 64});
  BatchRequest bare = Request(87, 60, 1);
  bare.document.reset();
  const uint64_t sessions = fixture_.store().calls("Session/Open");
  const Stream stream = Submit(*batch, bare);
  RunToTheEnd(*batch);
  EXPECT_EQ(Read(*stream).size(), 1u);
  EXPECT_EQ(fixture_.store().calls("Session/Open"), sessions) << "there was nothing to select";
}

TEST_F(BatchTest, ADensePromptGivesItsSlotsBackAndGoesOn) {
  // 200 tokens take 50 pages of 1 KiB, 100 tokens 25.
  const auto batch = Make({.step_tokens = 16, .slot_bytes = 56000});
  BatchRequest first = Request(83, 200, 8), second = Request(84, 100, 8);
  first.document.reset();
  second.document.reset();
  second.priority = 15;
  const Stream a = Submit(*batch, first);
  while (batch->Stats().front().context_tokens < 150) ASSERT_TRUE(batch->Step());
  const Stream b = Submit(*batch, second);
  RunToTheEnd(*batch);
  EXPECT_EQ(Read(*a), Alone(first));
  EXPECT_EQ(Read(*b), Alone(second));
  EXPECT_GT(Value(*batch, "batch_preempted"), 0u);
}

TEST_F(BatchTest, APromptThatDoesNotFitDenselyRunsWithinItsBudget) {
  const auto batch = Make({.slot_bytes = 20000});
  BatchRequest bare = Request(85, 100, 8);
  bare.document.reset();
  const Stream stream = Submit(*batch, bare);
  ASSERT_NE(stream, nullptr);
  RunToTheEnd(*batch);
  EXPECT_EQ(Read(*stream).size(), 8u);
  EXPECT_GT(stream->result().stats.selections, 100u);
}

EngineOptions WithQuestionChunks() {
  EngineOptions options = EngineFixture::Small();
  options.question_chunk_tokens = 30;
  return options;
}

class LongQuestionTest : public BatchTest {
 protected:
  LongQuestionTest() : BatchTest(&CpuDevice(), WithQuestionChunks()) {}
};

TEST_F(LongQuestionTest, AttendsToTheWholeDocumentBesideOthers) {
  const auto batch = Make({.step_tokens = 16});
  const BatchRequest asked = Request(91, 40, 8), other = Request(92, 5, 12);
  const Stream a = Submit(*batch, other), b = Submit(*batch, asked);
  const auto stats = [&] { return batch->Stats().back(); };
  do {
    ASSERT_TRUE(batch->Step());
  } while (stats().generated_tokens == 0);
  EXPECT_EQ(stats().selections, 0u);
  RunToTheEnd(*batch);
  EXPECT_EQ(Read(*a), Alone(other));
  EXPECT_EQ(Read(*b), Alone(asked));
  EXPECT_GT(b->result().stats.selections, 0u);
}

TEST_F(LongQuestionTest, RunsWithinItsBudgetWhereTheDocumentHasNoRoom) {
  const auto batch = Make({.slot_bytes = 20000});
  const Stream stream = Submit(*batch, Request(93, 40, 8));
  RunToTheEnd(*batch);
  EXPECT_EQ(Read(*stream).size(), 8u);
  EXPECT_GT(stream->result().stats.selections, 40u);
}

TEST_F(BatchTest, ALostDocumentEndsItsSequencesOnly) {
  const auto batch = Make();
  BatchRequest bare = Request(71, 30, 12);
  bare.document.reset();
  const Stream lost = Submit(*batch, Request(72, 5, 12));
  const Stream other = Submit(*batch, bare);
  fixture_.store().LoseSegments();
  RunToTheEnd(*batch);
  EXPECT_EQ(Read(*other), Alone(bare));
  const Status status = lost->Next().status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("this sequence cannot go on"));
  EXPECT_EQ(Value(*batch, "batch_failed"), 1u);
}

TEST_F(BatchTest, ADeadServerEndsWhatRunsWithAnError) {
  const auto batch = Make();
  const Stream a = Submit(*batch, Request(73, 5, 12));
  ASSERT_TRUE(batch->Step());
  fixture_.store().FailAllCalls();
  RunToTheEnd(*batch);
  Status status;
  for (StatusOr<std::optional<TokenId>> next = a->Next();; next = a->Next()) {
    status = next.status();
    if (!next.ok() || !next->has_value()) break;
  }
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
}

TEST_F(BatchTest, WhatCannotRunIsRefusedWithTheRemedy) {
  const auto batch = Make({.max_running = 1, .max_waiting = 1, .slot_bytes = 1 << 20});
  const auto refused = [&](BatchRequest request, StatusCode code, const std::string& message) {
    const Status status = batch->Submit(std::move(request)).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  };
  RetrievalOptions tight = Retrieval();
  tight.budget_tokens = 12;
  refused(Request(1, 1, 1, tight), StatusCode::kInvalidArgument,
          "budget_tokens is 12, less than sinks, window and one page together (16 tokens)");
  EXPECT_EQ(fixture_.engine()
                .OpenSequence(DocumentName{.name = "doc"}, {.retrieval = tight})
                .status()
                .code(),
            StatusCode::kInvalidArgument);
  BatchRequest request = Request(1, 1, 1);
  request.document->name = "none";
  refused(request, StatusCode::kNotFound, "none");
  refused(Request(1, 0, 1), StatusCode::kInvalidArgument, "the prompt is empty");
  refused(Request(1, 600, 1), StatusCode::kInvalidArgument, "model's context of 512");
  request = Request(1, 1, 1);
  request.prompt = {64};
  refused(request, StatusCode::kInvalidArgument, "has id 64");
  request = Request(1, 1, 1);
  request.params.on_token = [](TokenId) { return true; };
  refused(request, StatusCode::kInvalidArgument, "on_token");
  request = Request(1, 1, 1);
  request.params.top_p = 2;
  refused(request, StatusCode::kInvalidArgument, "top_p");
  Submit(*batch, Request(1, 1, 1));
  refused(Request(1, 1, 1), StatusCode::kResourceExhausted, "try again");
  EXPECT_TRUE(RetryAfter(batch->Submit(Request(1, 1, 1)).status()).has_value());
  EXPECT_EQ(Value(*batch, "batch_refused"), 2u);
  const auto small = Make({.slot_bytes = 100});
  const Status too_large = small->Submit(Request(1, 1, 1)).status();
  EXPECT_EQ(too_large.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(too_large.message()), HasSubstr("where 0 tokens fit; ask for fewer"));
  EXPECT_EQ(Batch::Create(&fixture_.engine(), {.max_running = 0}).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(BatchTest, TheModelsContextAndStopTokensEndASequence) {
  const auto batch = Make();
  const BatchRequest long_one = Request(81, 440, 100);  // 61 + 440, of a context of 512.
  BatchRequest stopped = Request(82, 4, 12);
  stopped.params.stop_tokens = {Alone(stopped).at(3)};
  const Stream a = Submit(*batch, long_one);
  const Stream b = Submit(*batch, stopped);
  RunToTheEnd(*batch);
  EXPECT_EQ(Read(*a), Alone(long_one));
  EXPECT_EQ(a->result().num_new_tokens, 11u);
  EXPECT_FALSE(a->result().stopped);
  EXPECT_EQ(Read(*b), Alone(stopped));
  EXPECT_TRUE(b->result().stopped);
}

// Query heads whose scores are beyond every number, one above and one below: they have no mean.
TEST_F(BatchTest, ScoresThatAreNoNumberAreCounted) {
  const auto batch = Make();
  RetrievalOptions retrieval = Retrieval();
  retrieval.digest = kernels::DigestKind::kMean;
  retrieval.pooling = kernels::Pooling::kAvgS;
  const auto request = [&] {
    return BatchRequest{
        .prompt = RandomTokens(60, 94), .retrieval = retrieval, .params = {.max_new_tokens = 20}};
  };
  const Stream usual = Submit(*batch, request());
  RunToTheEnd(*batch);
  EXPECT_EQ(usual->result().stats.nan_scores, 0u);
  EXPECT_EQ(Value(*batch, "batch_nan_scores"), 0u);
  retrieval.score_scale = 3e38f;
  const Stream stream = Submit(*batch, request());
  while (Value(*batch, "batch_running") == 0 || Value(*batch, "batch_nan_scores") == 0) {
    ASSERT_TRUE(batch->Step()) << "it has ended, and none was counted";
  }
  RunToTheEnd(*batch);
  EXPECT_GT(stream->result().stats.nan_scores, 0u);
  EXPECT_EQ(Value(*batch, "batch_nan_scores"), stream->result().stats.nan_scores);
}

TEST_F(BatchTest, ReportsWhatTheSequenceAloneReports) {
  const auto batch = Make();
  const BatchRequest request = Request(91, 9, 15);
  const Stream stream = Submit(*batch, request);
  RunToTheEnd(*batch);
  auto sequence = fixture_.Open();
  ASSERT_EQ(sequence->Append(request.prompt), OkStatus());
  ASSERT_TRUE(sequence->Generate(request.params).ok());
  const SequenceStats alone = sequence->stats();
  const SequenceStats stats = stream->result().stats;
  EXPECT_EQ(stats.steps, alone.steps);
  EXPECT_EQ(stats.generated_tokens, alone.generated_tokens);
  EXPECT_EQ(stats.moved.total(), alone.moved.total());
  EXPECT_EQ(stats.moved.full, alone.moved.full);
  EXPECT_EQ(stats.bytes_appended, alone.bytes_appended);
  EXPECT_EQ(stats.budget_ratio(), alone.budget_ratio());
}

TEST_F(BatchTest, TotalsOfSequencesAreThereWhileTheyRun) {
  const auto batch = Make();
  EXPECT_TRUE(batch->Stats().empty());
  const Stream first = Submit(*batch, Request(94, 1, 12));
  const Stream second = Submit(*batch, Request(95, 1, 6));
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(batch->Step());
  const std::vector<SequenceStats> early = batch->Stats();
  ASSERT_EQ(early.size(), 2u);
  for (const SequenceStats& stats : early) {
    EXPECT_EQ(stats.steps, 5u);
    EXPECT_EQ(stats.context_tokens, 61u + 5u);
    EXPECT_GT(stats.units_missed, 0u);
  }
  while (batch->Stats().size() == 2) ASSERT_TRUE(batch->Step());
  EXPECT_EQ(second->result().stats.steps, 6u);
  EXPECT_EQ(batch->Stats().front().steps, 6u);  // The first sequence goes on.
  RunToTheEnd(*batch);
  EXPECT_GE(first->result().stats.units_missed, early.front().units_missed);
  EXPECT_TRUE(batch->Stats().empty());
}

/// SharedSessions that count who comes through them.
class CountedSessions final : public BatchSessions {
 public:
  explicit CountedSessions(EngineFixture& fixture)
      : sessions_(&fixture.client(), &fixture.engine().spec()) {}
  StatusOr<std::unique_ptr<SessionSeat>> Seat(const ContextRef& context,
                                              const LaneShape& shape) override {
    ++seats_;
    return sessions_.Seat(context, shape);
  }
  void Send() override { sessions_.Send(); }
  uint64_t messages() const override { return sessions_.messages(); }
  uint64_t lanes() const override { return sessions_.lanes(); }
  uint32_t seats() const { return seats_; }

 private:
  SharedSessions sessions_;
  uint32_t seats_ = 0;
};

TEST_F(BatchTest, SequencesTakeTheirSeatsWhereTheBatchIsTold) {
  CountedSessions sessions(fixture_);
  auto batch = *Batch::Create(&fixture_.engine(), {}, &sessions);
  ExpectAsAlone(*batch, {Request(96, 2, 9), Request(97, 5, 9, Retrieval("freekv"))});
  EXPECT_EQ(sessions.seats(), 2u);
  EXPECT_GT(sessions.messages(), 0u);
  EXPECT_EQ(Value(*batch, "batch_recall_messages"), sessions.messages());
  EXPECT_EQ(Value(*batch, "batch_recall_lanes"), sessions.lanes());
}

TEST_F(BatchTest, WhatIsLeftWhenItStopsIsToldSo) {
  auto batch = Make();
  const Stream stream = Submit(*batch, Request(92, 4, 400));
  ASSERT_TRUE(batch->Step());
  batch->Stop();
  batch->Run();
  while (stream->Next().value_or(std::nullopt).has_value()) {
  }
  EXPECT_EQ(stream->Next().status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(batch->Submit(Request(93, 4, 4)).status().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace quire::worker
