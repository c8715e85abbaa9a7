// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/recall/recall_pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <utility>

#include "gpuworker/testing/fake_store.h"
#include "gpuworker/testing/held_transport.h"
#include "gpuworker/testing/tiny_spec.h"
#include "quire/layout.h"
#include "tests/kit/fake_clock.h"
#include "tests/kit/manual_executor.h"
#include "transport/local/loopback_transport.h"

namespace quire::worker {
namespace {

using ::testing::ElementsAre;
using testing::HeldTransport;
using ::testing::IsEmpty;
using Pages = std::vector<std::vector<uint32_t>>;

constexpr uint32_t kContextPages = 12;

/// Selects and blocks as the test says, and writes down what it is told.
class ScriptedPolicy final : public RetrievalPolicy {
 public:
  std::string_view name() const override { return "scripted"; }
  CacheLayout Layout(uint32_t) const override { return {.window_pages = 2, .selectable_pages = 2}; }
  StatusOr<bool> BeginSelect(const SelectRequest&) override {
    if (begins) begun = next;
    return begins;
  }
  StatusOr<Selection> Select(const SelectRequest& request) override {
    candidates = request.candidates;
    ++selections;
    return Selection{.pages = begun.empty() ? next : std::exchange(begun, {})};
  }
  StatusOr<std::vector<bool>> NeedsBlocking(const SelectRequest& request) override {
    position = request.position;
    held.assign(request.held.begin(), request.held.end());
    return blocking;
  }
  bool MayBeLate(const SelectRequest&) const override { return may_be_late; }

  Pages next;
  std::vector<bool> blocking = {true, true};
  bool may_be_late = false;
  bool begins = false;
  Pages begun;
  PageRange candidates;
  uint64_t position = 0;
  std::vector<uint64_t> held;
  int selections = 0;
};

/// Units come in messages, or are written into a staging area.
class RecallPipelineTest : public ::testing::TestWithParam<bool> {
 protected:
  RecallPipelineTest() {
    transport_ = std::make_shared<HeldTransport>(
        std::make_shared<LoopbackTransport>(&store_, LoopbackTransport::Options{.clock = &clock_}),
        &clock_);
    transport_->lands_directly = lands();
    client_ = *Client::Create({.transport = transport_, .clock = &clock_});
    context_ = client_->OpenContext(spec_, std::nullopt)->id;
    Payload payload;
    payload.Append(std::vector<std::byte>(SegmentBytes(spec_, kContextPages)));
    EXPECT_TRUE(
        client_->AppendPages(context_, 0, std::vector<TokenId>(kContextPages * 2), payload).ok());
    session_ = *client_->OpenSession(ContextRef(context_),
                                     {.spec = spec_, .slots_per_head = 2, .managed_layers = {}});
    cache_ = *BudgetCache::Create(spec_, &CpuDevice(),
                                  std::vector{policy_.Layout(0), policy_.Layout(1)});
    EXPECT_EQ(cache_->StartAt(kContextPages * 2), OkStatus());
    staging_.emplace(session_.get());
    EXPECT_EQ(staging_->Reserve(0), OkStatus());
    EXPECT_EQ(staging_->landing() != nullptr, lands());
    channel_.emplace(session_.get(), &*staging_, 0);
    MakePipeline(nullptr);
  }

  void MakePipeline(Executor* executor) {
    pipeline_.emplace(RecallPipeline::Dependencies{.channel = &*channel_,
                                                   .cache = cache_.get(),
                                                   .policy = &policy_,
                                                   .device = &CpuDevice(),
                                                   .clock = &clock_,
                                                   .options = &options_,
                                                   .stats = &stats_,
                                                   .host = {},
                                                   .executor = executor});
  }

  static bool lands() { return GetParam(); }
  Status Before(const Pages& select, std::vector<bool> blocking) {
    policy_.next = select;
    policy_.blocking = std::move(blocking);
    return pipeline_->BeforeAttention(0, query_.data());
  }
  /// A token that speculates: heads hold what an earlier one selected, and wait 5 ms for another.
  Status Speculate(const Pages& select, std::vector<bool> corrected) {
    NextToken();
    policy_.may_be_late = true;
    options_.recall_deadline = std::chrono::milliseconds(5);
    QUIRE_RETURN_IF_ERROR(Before(select, std::move(corrected)));
    return pipeline_->AfterAttention(0);
  }
  void NextToken() {
    const std::vector<float> row(size_t{spec_.num_kv_heads} * spec_.head_dim);
    ASSERT_EQ(cache_->AppendTokens(0, row.data(), row.data(), 1), OkStatus());
  }
  std::vector<uint32_t> Active(uint32_t head) const { return cache_->table(0).ActivePages(head); }

  const KvSpec spec_ = testing::TinySpec();
  RetrievalOptions options_;
  const std::vector<float> query_ = std::vector<float>(8);
  quire::testing::FakeClock clock_;
  testing::FakeStore store_;
  std::shared_ptr<HeldTransport> transport_;
  ScriptedPolicy policy_;
  uint64_t context_ = 0;
  RecallStats stats_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<ClientSession> session_;
  std::optional<StagingArea> staging_;
  std::optional<SessionChannel> channel_;
  std::unique_ptr<BudgetCache> cache_;
  std::optional<RecallPipeline> pipeline_;
};

TEST_P(RecallPipelineTest, BringsWhatIsMissingAndActivatesTheSelection) {
  ASSERT_EQ(Before({{1, 2}, {3, 4}}, {true, true}), OkStatus());
  EXPECT_EQ(policy_.candidates, (PageRange{0, kContextPages - 2}));
  EXPECT_THAT(Active(0), ElementsAre(1, 2));
  EXPECT_THAT(Active(1), ElementsAre(3, 4));
  ASSERT_EQ(Before({{2, 5}, {3, 4}}, {true, true}), OkStatus());
  EXPECT_THAT(Active(0), ElementsAre(2, 5));
  EXPECT_EQ(stats_.units_selected, 8u);
  EXPECT_EQ(stats_.units_missed, 5u);
  EXPECT_EQ(stats_.bytes_moved, 5 * UnitBytes(spec_));
  EXPECT_EQ(stats_.units_landed, lands() ? 5u : 0u);
}

TEST_P(RecallPipelineTest, AResidentSelectionSendsNoCall) {
  ASSERT_EQ(Before({{1, 2}, {3, 4}}, {true, true}), OkStatus());
  ASSERT_EQ(Before({{2}, {3, 4}}, {true, true}), OkStatus());
  EXPECT_EQ(stats_.recalls, 1u);
  EXPECT_EQ(store_.calls("Session/Recall"), 1u);
  EXPECT_THAT(Active(0), ElementsAre(2));  // Page 1 is resident and takes no part.
}

TEST_P(RecallPipelineTest, HeadsThatDoNotBlockAttendToTheirPagesUntilTheNextStep) {
  ASSERT_EQ(Before({{1, 2}, {3, 4}}, {true, true}), OkStatus());
  ASSERT_EQ(pipeline_->AfterAttention(0), OkStatus());
  ASSERT_EQ(Before({{2, 5}, {6, 7}}, {true, false}), OkStatus());
  EXPECT_THAT(Active(0), ElementsAre(2, 5));
  EXPECT_THAT(Active(1), ElementsAre(3, 4));
  EXPECT_EQ(stats_.units_missed, 5u);  // The head that blocks, and nothing of the other.
  ASSERT_EQ(pipeline_->AfterAttention(0), OkStatus());
  EXPECT_THAT(Active(1), ElementsAre(3, 4));
  ASSERT_EQ(Before({{8, 9}, {8, 9}}, {false, false}), OkStatus());
  EXPECT_THAT(Active(0), ElementsAre(2, 5));
  EXPECT_THAT(Active(1), ElementsAre(6, 7));
  EXPECT_EQ(stats_.units_missed, 7u);
  EXPECT_THAT(transport_->recalls(),
              ElementsAre(Priority::kCorrection, Priority::kCorrection, Priority::kPrefetch));
  EXPECT_EQ(stats_.blocking_layers, 2u);
  EXPECT_EQ(stats_.blocking_heads, 3u);
}

TEST_P(RecallPipelineTest, ASelectionThatIsBegunIsAskedForWhenTheNextLayerAsks) {
  ASSERT_EQ(Before({{1, 2}, {3, 4}}, {true, true}), OkStatus());
  ASSERT_EQ(pipeline_->AfterAttention(0), OkStatus());
  ASSERT_EQ(pipeline_->BeforeAttention(1, query_.data()), OkStatus());
  ASSERT_EQ(pipeline_->AfterAttention(1), OkStatus());
  policy_.begins = true;
  ASSERT_EQ(Before({{5, 6}, {3, 4}}, {false, false}), OkStatus());
  ASSERT_EQ(pipeline_->AfterAttention(0), OkStatus());
  EXPECT_EQ(policy_.selections, 2);
  EXPECT_EQ(stats_.recalls, 2u);
  policy_.next = {{7, 8}, {3, 4}};
  ASSERT_EQ(pipeline_->BeforeAttention(1, query_.data()), OkStatus());
  EXPECT_EQ(policy_.selections, 3);
  EXPECT_EQ(stats_.recalls, 3u);
  ASSERT_EQ(pipeline_->AfterAttention(1), OkStatus());
  EXPECT_EQ(stats_.recalls, 3u);
  for (int call = 0; call < 2; ++call) ASSERT_EQ(pipeline_->FlushDeferred(), OkStatus());
  EXPECT_EQ(policy_.selections, 4);
  EXPECT_EQ(stats_.recalls, 4u);  // The last layer's, at the end of the step.
  EXPECT_THAT(Active(0), ElementsAre(1, 2));
  const auto lanes = pipeline_->Drain();
  ASSERT_TRUE(lanes.ok()) << lanes.status();
  EXPECT_THAT((*lanes)[0].active.Head(0), ElementsAre(5, 6));
  EXPECT_THAT((*lanes)[1].active.Head(0), ElementsAre(7, 8));
}

TEST_P(RecallPipelineTest, ACorrectionLeavesBeforeWhatWasBegun) {
  policy_.begins = true;
  ASSERT_EQ(Before({{1, 2}, {3, 4}}, {true, true}), OkStatus());
  ASSERT_EQ(pipeline_->AfterAttention(0), OkStatus());
  ASSERT_EQ(Before({{5, 6}, {3, 4}}, {false, false}), OkStatus());
  ASSERT_EQ(pipeline_->AfterAttention(0), OkStatus());
  policy_.blocking = {true, true};
  ASSERT_EQ(pipeline_->BeforeAttention(1, query_.data()), OkStatus());
  EXPECT_THAT(transport_->recalls(),
              ElementsAre(Priority::kCorrection, Priority::kCorrection, Priority::kPrefetch));
}

TEST_P(RecallPipelineTest, WhatWasBegunDoesNotWaitForALayersLatePrefetch) {
  policy_.begins = true;
  policy_.may_be_late = true;
  options_.recall_deadline = std::chrono::milliseconds(5);
  for (const std::vector<bool>& blocking : {std::vector{true, true}, {false, false}}) {
    policy_.blocking = blocking;
    for (const uint32_t layer : {0u, 1u}) {
      policy_.next = blocking[0] ? Pages{{1, 2}, {3, 4}} : Pages{{5, 6}, {3, 4}};
      ASSERT_EQ(pipeline_->BeforeAttention(layer, query_.data()), OkStatus());
      ASSERT_EQ(pipeline_->AfterAttention(layer), OkStatus());
    }
  }
  ASSERT_EQ(pipeline_->FlushDeferred(), OkStatus());
  ASSERT_EQ(Before({{7, 8}, {3, 4}}, {false, false}), OkStatus());
  ASSERT_EQ(pipeline_->AfterAttention(0), OkStatus());
  transport_->held = true;  // Layer 1's prefetch is late.
  const TimePoint before = clock_.Now();
  policy_.blocking = {true, true};
  ASSERT_EQ(pipeline_->Ask(1, query_.data()), OkStatus());
  ASSERT_EQ(transport_->recalls().size(), 5u);
  EXPECT_EQ(transport_->recalls()[4], Priority::kPrefetch);  // Layer 0's.
  EXPECT_EQ(clock_.Now() - before, options_.recall_deadline);
  transport_->held = false;
}

TEST_P(RecallPipelineTest, ASelectionThatIsBegunCountsFromTheLayersNextTokenOn) {
  ASSERT_EQ(Before({{1, 2}, {3, 4}}, {true, true}), OkStatus());
  ASSERT_EQ(pipeline_->AfterAttention(0), OkStatus());
  policy_.begins = true;
  ASSERT_EQ(Before({{5, 6}, {3, 4}}, {false, false}), OkStatus());
  ASSERT_EQ(pipeline_->AfterAttention(0), OkStatus());
  ASSERT_EQ(Before({{7, 8}, {3, 4}}, {false, false}), OkStatus());
  EXPECT_THAT(Active(0), ElementsAre(5, 6));
  ASSERT_EQ(pipeline_->AfterAttention(0), OkStatus());
  const auto lanes = pipeline_->Drain();  // The last one was not requested.
  ASSERT_TRUE(lanes.ok()) << lanes.status();
  EXPECT_THAT((*lanes)[0].active.Head(0), ElementsAre(7, 8));
}

TEST_P(RecallPipelineTest, WhatWasPrefetchedIsNotAskedForAgain) {
  ASSERT_EQ(Before({{1, 2}, {3, 4}}, {true, true}), OkStatus());
  ASSERT_EQ(Speculate({{5, 6}, {7, 8}}, {false, false}), OkStatus());
  ASSERT_EQ(Speculate({{5, 6}, {7, 8}}, {true, true}), OkStatus());
  EXPECT_EQ(stats_.recalls, 2u);
  EXPECT_EQ(stats_.units_missed, 8u);
  EXPECT_THAT(Active(0), ElementsAre(5, 6));
}

TEST_P(RecallPipelineTest, ALatePrefetchLeavesTheStepItsOlderPagesAndTheNextOneBlocks) {
  ASSERT_EQ(Before({{1, 2}, {3, 4}}, {true, true}), OkStatus());
  ASSERT_EQ(Speculate({{5, 6}, {3, 4}}, {false, false}), OkStatus());
  transport_->held = true;
  const TimePoint start = clock_.Now();
  ASSERT_EQ(Speculate({{5, 8}, {3, 4}}, {false, false}), OkStatus());
  EXPECT_EQ(clock_.Now() - start, options_.recall_deadline);
  EXPECT_THAT(Active(0), ElementsAre(1, 2));
  EXPECT_EQ(stats_.late_prefetches, 1u);
  EXPECT_EQ(stats_.recalls, 2u);  // The lane has a recall in flight.
  transport_->held = false;
  ASSERT_EQ(Speculate({{8, 9}, {3, 4}}, {false, false}), OkStatus());
  EXPECT_THAT(Active(0), ElementsAre(8, 9));  // The head that was late has blocked.
  EXPECT_EQ(transport_->recalls().back(), Priority::kCorrection);
  // The other one has blocked as well: nothing could be asked for it behind the late recall.
  EXPECT_EQ(stats_.blocking_heads, 4u);
  EXPECT_EQ(stats_.stalled, options_.recall_deadline);
}

TEST_P(RecallPipelineTest, ALatePrefetchOfWhatIsNotSelectedAnyMoreMakesRoomForTheNewerStep) {
  ASSERT_EQ(Before({{1, 2}, {3, 4}}, {true, true}), OkStatus());
  ASSERT_EQ(Speculate({{1, 5}, {3, 6}}, {false, false}), OkStatus());
  transport_->held = true;
  // Pages 1 and 3 are here: of what comes, nothing is selected.
  ASSERT_EQ(Speculate({{1, 7}, {3, 8}}, {false, false}), OkStatus());
  EXPECT_EQ(stats_.late_prefetches, 1u);
  EXPECT_EQ(stats_.recalls, 3u);
  EXPECT_EQ(transport_->recalls().back(), Priority::kPrefetch);
  transport_->held = false;
  ASSERT_EQ(Speculate({{1, 7}, {3, 8}}, {false, false}), OkStatus());
  EXPECT_THAT(Active(0), ElementsAre(1, 7));
  EXPECT_THAT(Active(1), ElementsAre(3, 8));
  EXPECT_EQ(stats_.units_missed, 6u);  // 5 and 6 never came.
  // Where they might still land, 7 and 8 were asked for in messages.
  EXPECT_EQ(stats_.units_landed, lands() ? 4u : 0u);
}

TEST_P(RecallPipelineTest, ASelectionIsMadeAfterAttentionWhereNoHeadBlocks) {
  ASSERT_EQ(Before({{1, 2}, {3, 4}}, {true, true}), OkStatus());
  ASSERT_EQ(pipeline_->AfterAttention(0), OkStatus());
  EXPECT_EQ(policy_.selections, 1);
  ASSERT_EQ(Before({{5, 6}, {3, 4}}, {false, false}), OkStatus());
  EXPECT_EQ(policy_.selections, 1);
  ASSERT_EQ(pipeline_->AfterAttention(0), OkStatus());
  EXPECT_EQ(policy_.selections, 2);
  EXPECT_EQ(stats_.recalls, 2u);
  ASSERT_EQ(Before({{5, 6}, {3, 4}}, {true, false}), OkStatus());
  EXPECT_EQ(policy_.selections, 3);
}

TEST_P(RecallPipelineTest, AHeadThatTurnedWhileAPrefetchIsLateBlocksAtTheNextStep) {
  ASSERT_EQ(Before({{1, 2}, {3, 4}}, {true, true}), OkStatus());
  ASSERT_EQ(Speculate({{5, 6}, {3, 4}}, {false, false}), OkStatus());
  transport_->held = true;
  ASSERT_EQ(Speculate({{5, 8}, {3, 9}}, {false, true}), OkStatus());
  EXPECT_EQ(stats_.late_corrections, 1u);
  EXPECT_EQ(stats_.recalls, 2u);
  EXPECT_THAT(Active(1), ElementsAre(3, 4));
  transport_->held = false;
  ASSERT_EQ(Speculate({{5, 8}, {3, 9}}, {false, false}), OkStatus());
  EXPECT_THAT(Active(0), ElementsAre(5, 8));
  EXPECT_THAT(Active(1), ElementsAre(3, 9));
}

// The other head's prefetch has to wait behind the correction; it is not forgotten.
TEST_P(RecallPipelineTest, ALateCorrectionBlocksTheNextStepOfEveryHeadThatWaitsForIt) {
  ASSERT_EQ(Before({{1, 2}, {3, 4}}, {true, true}), OkStatus());
  ASSERT_EQ(Speculate({{1, 2}, {3, 4}}, {false, false}), OkStatus());
  transport_->held = true;
  ASSERT_EQ(Speculate({{5, 6}, {7, 8}}, {true, false}), OkStatus());
  EXPECT_EQ(stats_.late_corrections, 1u);
  EXPECT_THAT(Active(0), ElementsAre(1, 2));
  transport_->held = false;
  ASSERT_EQ(Speculate({{5, 6}, {7, 8}}, {false, false}), OkStatus());
  EXPECT_THAT(Active(0), ElementsAre(5, 6));
  EXPECT_THAT(Active(1), ElementsAre(7, 8));
  EXPECT_EQ(stats_.late_corrections, 1u);
}

// Part of promise 8: stale pages are bounded, however slow the link.
TEST_P(RecallPipelineTest, AHeadNeverAttendsToASelectionOfMoreThanTwoStepsAgo) {
  const auto selected = [](uint32_t step, uint32_t stride) {
    const uint32_t page = step * stride % 8;
    return Pages{{page, page + 1}, {page, page + 1}};
  };
  for (const uint32_t stride : {1u, 2u}) {  // With and without pages in common.
    SCOPED_TRACE(stride);
    const uint64_t late_before = stats_.late_prefetches;
    NextToken();
    ASSERT_EQ(Before(selected(0, stride), {true, true}), OkStatus());
    transport_->latency = std::chrono::milliseconds(40);
    for (uint32_t step = 1; step < 30; ++step) {
      ASSERT_EQ(Speculate(selected(step, stride), {false, false}), OkStatus());
      clock_.Advance(std::chrono::milliseconds(10));
      const std::vector<uint32_t> active = Active(0);
      bool recent = false;
      for (uint32_t age = 0; age <= std::min(step, 2u); ++age) {
        recent = recent || active == selected(step - age, stride)[0];
      }
      EXPECT_TRUE(recent) << "step " << step << " attends to page " << active.at(0);
    }
    EXPECT_GT(stats_.late_prefetches, late_before + 5);
    transport_->latency = {};
  }
}

TEST_P(RecallPipelineTest, APolicyIsToldWhoseSelectionEachHeadHolds) {
  NextToken();
  ASSERT_EQ(Before({{1, 2}, {3, 4}}, {true, true}), OkStatus());
  const uint64_t first = policy_.position;
  ASSERT_EQ(Speculate({{5, 6}, {3, 4}}, {false, false}), OkStatus());
  EXPECT_THAT(policy_.held, ElementsAre(first, first));
  transport_->held = true;
  ASSERT_EQ(Speculate({{5, 8}, {3, 4}}, {false, false}), OkStatus());
  // The pages of the second head are here: its part of the recall is not late.
  EXPECT_THAT(policy_.held, ElementsAre(first, first + 1));
  transport_->held = false;
}

TEST_P(RecallPipelineTest, HeadsWithNothingToAttendToInsteadWaitForAsLongAsItTakes) {
  options_.recall_deadline = std::chrono::milliseconds(5);
  transport_->held = true;
  EXPECT_EQ(Before({{1, 2}, {3, 4}}, {true, true}).code(), StatusCode::kDeadlineExceeded);
  EXPECT_GT(clock_.Now() - TimePoint(), std::chrono::seconds(1));
}

TEST_P(RecallPipelineTest, AFailedPrefetchIsMadeUpForBeforeTheNextAttention) {
  ASSERT_EQ(Before({{1, 2}, {3, 4}}, {true, true}), OkStatus());
  store_.FailOnce("Session/Recall", 0, NotFound("gone for once"));
  ASSERT_EQ(Speculate({{5, 6}, {3, 4}}, {false, false}), OkStatus());
  ASSERT_EQ(Speculate({{7, 8}, {3, 4}}, {false, false}), OkStatus());
  EXPECT_THAT(Active(0), ElementsAre(7, 8));
  EXPECT_EQ(transport_->recalls().back(), Priority::kCorrection);
}

TEST_P(RecallPipelineTest, AServerThatStaysAwayIsAnErrorOfTheTokenAfterAPrefetch) {
  ASSERT_EQ(Before({{1, 2}, {3, 4}}, {true, true}), OkStatus());
  store_.FailAllCalls();
  Status status;
  for (int step = 0; step < 3 && status.ok(); ++step) {
    status = Speculate({{5, 6}, {3, 4}}, {false, false});
    EXPECT_THAT(Active(0), ElementsAre(1, 2));
  }
  // A recall is tried again for as long as its deadline allows.
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status;
}

TEST_P(RecallPipelineTest, AFailedRecallIsAnErrorAndPlacesNothing) {
  ASSERT_EQ(Before({{1, 2}, {3, 4}}, {true, true}), OkStatus());
  store_.FailOnce("Session/Recall", 0, NotFound("no such session"));
  EXPECT_EQ(Before({{5, 6}, {3, 4}}, {true, true}).code(), StatusCode::kNotFound);
  EXPECT_FALSE(cache_->table(0).IsResident(0, 5));
  // The pending reply was never acknowledged: the next recall starts from the same map.
  ASSERT_EQ(Before({{5, 6}, {3, 4}}, {true, true}), OkStatus());
  EXPECT_THAT(Active(0), ElementsAre(5, 6));
}

// Promise 2: a damaged unit is not attended to. The server is told of it, and asked once more.
TEST_P(RecallPipelineTest, Promise2ADamagedUnitIsReportedAndAskedForOnceMore) {
  ASSERT_EQ(Before({{1, 2}, {3, 4}}, {true, true}), OkStatus());
  store_.DamageUnit(2);
  ASSERT_EQ(Before({{5, 6}, {7, 8}}, {true, true}), OkStatus());
  EXPECT_EQ(store_.mismatched_units(), 1u);
  EXPECT_EQ(stats_.units_damaged, 1u);
  EXPECT_THAT(Active(0), ElementsAre(5, 6));
  EXPECT_THAT(Active(1), ElementsAre(7, 8));
  EXPECT_EQ(stats_.units_missed, 8u);
}

TEST_P(RecallPipelineTest, Promise2AUnitThatStaysDamagedIsAnErrorAndNothingIsActive) {
  ASSERT_EQ(Before({{1, 2}, {3, 4}}, {true, true}), OkStatus());
  store_.DamageEveryUnit(true);
  EXPECT_EQ(Before({{5, 6}, {7, 8}}, {true, true}).code(), StatusCode::kDataLoss);
  EXPECT_THAT(Active(0), IsEmpty());
  EXPECT_THAT(Active(1), IsEmpty());
  EXPECT_FALSE(cache_->table(0).IsResident(0, 1));
  store_.DamageEveryUnit(false);
  // Both ends take the lane's slots to be empty, so everything comes anew.
  ASSERT_EQ(Before({{5, 6}, {7, 8}}, {true, true}), OkStatus());
  EXPECT_THAT(Active(1), ElementsAre(7, 8));
  EXPECT_EQ(stats_.units_missed, 8u);
}

TEST_P(RecallPipelineTest, ADamagedUnitOfAPrefetchIsMadeUpForBeforeTheNextAttention) {
  ASSERT_EQ(Before({{1, 2}, {3, 4}}, {true, true}), OkStatus());
  store_.DamageUnit(0);
  ASSERT_EQ(Speculate({{5, 6}, {3, 4}}, {false, false}), OkStatus());
  ASSERT_EQ(Speculate({{7, 8}, {3, 4}}, {false, false}), OkStatus());
  EXPECT_THAT(Active(0), ElementsAre(7, 8));
  EXPECT_THAT(Active(1), ElementsAre(3, 4));
}

TEST_P(RecallPipelineTest, WhatHasComeIsTakenInWhileOtherLayersCompute) {
  quire::testing::ManualExecutor beside;
  MakePipeline(&beside);
  ASSERT_EQ(Before({{1, 2}, {3, 4}}, {true, true}), OkStatus());
  while (beside.RunOne()) {
  }
  ASSERT_EQ(Speculate({{5, 6}, {7, 8}}, {false, false}), OkStatus());
  EXPECT_FALSE(beside.RunOne());  // Its arrival has not been checked.
  ASSERT_EQ(pipeline_->AfterAttention(1), OkStatus());
  EXPECT_TRUE(beside.RunOne());
  EXPECT_THAT(Active(0), ElementsAre(1, 2));  // Until the layer's own next step.
  transport_->held = true;                    // Nothing has to come any more.
  ASSERT_EQ(Speculate({{5, 6}, {7, 8}}, {false, false}), OkStatus());
  EXPECT_THAT(Active(0), ElementsAre(5, 6));
  EXPECT_EQ(stats_.late_prefetches, 0u);
}

TEST_P(RecallPipelineTest, APrefetchThatFailsMeanwhileIsMadeUpFor) {
  quire::testing::ManualExecutor beside;
  MakePipeline(&beside);
  ASSERT_EQ(Before({{1, 2}, {3, 4}}, {true, true}), OkStatus());
  store_.FailOnce("Session/Recall", 0, NotFound("gone for once"));
  ASSERT_EQ(Speculate({{5, 6}, {3, 4}}, {false, false}), OkStatus());
  ASSERT_EQ(pipeline_->AfterAttention(1), OkStatus());
  ASSERT_EQ(Speculate({{7, 8}, {3, 4}}, {false, false}), OkStatus());
  EXPECT_THAT(Active(0), ElementsAre(7, 8));
}

class HostTierPipelineTest : public RecallPipelineTest {
 protected:
  HostTierPipelineTest() { UseTier(&kept_); }
  void UseTier(HostTier* tier) {
    pipeline_.emplace(RecallPipeline::Dependencies{.channel = &*channel_,
                                                   .cache = cache_.get(),
                                                   .policy = &policy_,
                                                   .device = &CpuDevice(),
                                                   .clock = &clock_,
                                                   .options = &options_,
                                                   .stats = &stats_,
                                                   .host = {tier, {}, context_}});
  }
  HostTier kept_{1 << 20};
};

TEST_P(HostTierPipelineTest, ASelectionThatComesBackIsPlacedFromHere) {
  ASSERT_EQ(Before({{1, 2}, {3, 4}}, {true, true}), OkStatus());
  ASSERT_EQ(Before({{5, 6}, {7, 8}}, {true, true}), OkStatus());
  ASSERT_EQ(Before({{1, 6}, {4, 9}}, {true, true}), OkStatus());
  EXPECT_THAT(Active(0), ElementsAre(1, 6));
  EXPECT_THAT(Active(1), ElementsAre(4, 9));
  EXPECT_EQ(stats_.units_from_host, 2u);  // 1 and 4; 9 is new, 6 is resident.
  EXPECT_EQ(stats_.units_missed, 9u);
  EXPECT_EQ(stats_.bytes_moved, 9 * UnitBytes(spec_));
}

TEST_P(HostTierPipelineTest, AUnitThatWasTakenForARecallStaysThoughTheTierDropsIt) {
  HostTier small(UnitBytes(spec_) * 4);
  UseTier(&small);
  ASSERT_EQ(Before({{1, 2}, {3, 4}}, {true, true}), OkStatus());
  // Units for head 1 push those out of the tier that head 0 is to have from there.
  ASSERT_EQ(Before({{8, 9}, {3, 4}}, {true, true}), OkStatus());
  ASSERT_EQ(Before({{1, 2}, {5, 6}}, {true, true}), OkStatus());
  EXPECT_THAT(Active(0), ElementsAre(1, 2));
  EXPECT_THAT(Active(1), ElementsAre(5, 6));
  EXPECT_LE(small.stats().bytes, UnitBytes(spec_) * 4);
  EXPECT_GT(small.stats().evictions, 0u);
}

// Promise 2: what is damaged in the worker's own memory comes anew from the server, which is not
// blamed for it.
TEST_P(HostTierPipelineTest, Promise2AUnitDamagedHereIsDroppedAndSentAgain) {
  ASSERT_EQ(Before({{1, 2}, {3, 4}}, {true, true}), OkStatus());
  ASSERT_EQ(Before({{5, 6}, {7, 8}}, {true, true}), OkStatus());
  for (const uint32_t page : {1u, 2u}) {
    const auto kept = kept_.Get({.context = context_, .page = page, .layer = 0, .head = 0});
    ASSERT_TRUE(kept.has_value());
    *const_cast<std::byte*>(kept->bytes.bytes.data()) ^= std::byte{4};
  }
  ASSERT_EQ(Before({{1, 2}, {3, 4}}, {true, true}), OkStatus());
  EXPECT_THAT(Active(0), ElementsAre(1, 2));
  EXPECT_THAT(Active(1), ElementsAre(3, 4));
  EXPECT_EQ(kept_.stats().damaged, 2u);
  EXPECT_EQ(store_.mismatched_units(), 0u);
  EXPECT_EQ(stats_.units_from_host, 2u) << "those that are intact";
}

TEST_P(HostTierPipelineTest, ALostSessionTakesNothingFromTheTierThatItCannotPlace) {
  ASSERT_EQ(Before({{1, 2}, {3, 4}}, {true, true}), OkStatus());
  ASSERT_EQ(Before({{5, 6}, {7, 8}}, {true, true}), OkStatus());
  // Refused once as stale: the maps are sent, and the same units are held in the second attempt.
  store_.FailOnce("Session/Recall", 0, FailedPrecondition("stale"));
  ASSERT_EQ(Before({{1, 2}, {3, 4}}, {true, true}), OkStatus());
  EXPECT_THAT(Active(0), ElementsAre(1, 2));
  EXPECT_EQ(stats_.units_from_host, 4u);
}

std::string WayName(const ::testing::TestParamInfo<bool>& way) {
  return way.param ? "Landing" : "Messages";
}
INSTANTIATE_TEST_SUITE_P(Ways, RecallPipelineTest, ::testing::Bool(), WayName);
INSTANTIATE_TEST_SUITE_P(Ways, HostTierPipelineTest, ::testing::Bool(), WayName);

}  // namespace
}  // namespace quire::worker
