// SPDX-License-Identifier: Apache-2.0
//
// LayerRecall over a channel whose replies the test writes.
#include "gpuworker/recall/layer_recall.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "common/base/memory/checksum.h"
#include "gpuworker/testing/tiny_spec.h"
#include "quire/layout.h"
#include "tests/kit/fake_clock.h"
#include "tests/kit/manual_executor.h"

namespace quire::worker {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint32_t kLayer = 1;
constexpr Duration kStep = std::chrono::milliseconds(1);

/// Gives the parts of `replies`, and waits until the deadline where there is none.
class WrittenChannel final : public RecallChannel {
 public:
  explicit WrittenChannel(quire::testing::FakeClock* clock) : clock_(clock) {}

  StatusOr<std::unique_ptr<ChannelRecall>> Start(LayerWant want,
                                                 const RecallOptions& options) override {
    QUIRE_RETURN_IF_ERROR(refusal);
    wants.push_back(std::move(want));
    piece_bytes = options.piece_bytes;
    return std::make_unique<Recall>(this);
  }
  void Applied(const RecallPart&) override { ++applied; }
  void Invalidate(const RecallPart&) override { ++spoiled; }
  void Forget(uint32_t) override {}
  void Mismatched(MismatchedUnit unit) override { mismatched.push_back(unit.page); }

  std::deque<StatusOr<std::optional<RecallPart>>> replies;
  Status refusal;
  std::vector<LayerWant> wants;
  uint32_t piece_bytes = 0;
  int applied = 0, spoiled = 0, cancelled = 0;
  std::vector<uint32_t> mismatched;

 private:
  class Recall final : public ChannelRecall {
   public:
    explicit Recall(WrittenChannel* channel) : channel_(channel) {}
    ~Recall() override {
      if (!ended_) ++channel_->cancelled;
    }
    TimePoint deadline() const override { return TimePoint(std::chrono::hours(1)); }
    StatusOr<std::optional<RecallPart>> Next(TimePoint deadline) override {
      if (channel_->replies.empty()) {
        channel_->clock_->Advance(deadline - channel_->clock_->Now());
        return DeadlineExceeded("nothing has come");
      }
      auto reply = std::move(channel_->replies.front());
      channel_->replies.pop_front();
      ended_ = !reply.ok() || !reply->has_value();
      return reply;
    }

   private:
    WrittenChannel* const channel_;
    bool ended_ = false;
  };

  quire::testing::FakeClock* const clock_;
};

class LayerRecallTest : public ::testing::Test {
 protected:
  LayerRecallTest() {
    cache_ = *BudgetCache::Create(
        spec_, &CpuDevice(),
        std::vector<CacheLayout>(2, {.window_pages = 2, .selectable_pages = 2}));
    EXPECT_EQ(cache_->StartAt(24), OkStatus());
    with_.cache = cache_.get();
    MakeRecall();
  }
  void MakeRecall() { recall_.emplace(&with_, kLayer); }

  static PlannedRecall Plan(PageLists pages, uint64_t position,
                            std::vector<bool> heads = {true, true}) {
    PlannedRecall plan{.want = {}, .position = position, .heads = std::move(heads)};
    plan.want.layer = kLayer;
    plan.want.pages = std::move(pages);
    return plan;
  }
  static PlannedRecall Query(uint64_t position, std::vector<bool> heads) {
    PlannedRecall plan = Plan({}, position, std::move(heads));
    plan.want.query = {1};
    return plan;
  }
  /// `pages` of head 0 and head 1, each into the next slot of its head.
  RecallPart PartOf(const PageLists& pages) {
    RecallPart part;
    part.lanes.push_back({.layer = kLayer});
    for (uint32_t head = 0; head < pages.num_heads(); ++head) {
      uint32_t slot = 0;
      for (const uint32_t page : pages.Head(head)) {
        std::vector<std::byte> unit(UnitBytes(spec_), std::byte{0});
        part.checksums.push_back(Crc32c(unit));
        part.placements.push_back({.layer = kLayer,
                                   .head = head,
                                   .slot = slot++,
                                   .generation = ++generation_,
                                   .page = page});
        part.payload.Append(std::move(unit));
      }
    }
    return part;
  }
  void Reply(RecallPart part) { channel_.replies.emplace_back(std::move(part)); }
  void EndReply() { channel_.replies.emplace_back(std::nullopt); }
  TimePoint Soon() const { return clock_.Now() + kStep; }
  std::vector<uint32_t> Active(uint32_t head) const {
    return cache_->table(kLayer).ActivePages(head);
  }

  const KvSpec spec_ = testing::TinySpec();
  RetrievalOptions options_;
  quire::testing::FakeClock clock_;
  WrittenChannel channel_{&clock_};
  RecallStats stats_;
  std::unique_ptr<BudgetCache> cache_;
  LayerRecall::Dependencies with_{
      .channel = &channel_, .clock = &clock_, .options = &options_, .stats = &stats_};
  std::optional<LayerRecall> recall_;
  uint32_t generation_ = 0;
};

TEST_F(LayerRecallTest, ItIsInFlightUntilAllHasComeAndThenActive) {
  ASSERT_EQ(recall_->Start(Plan({{1, 2}, {3}}, 9), Priority::kCorrection), OkStatus());
  EXPECT_TRUE(recall_->in_flight());
  EXPECT_FALSE(recall_->IsReady());
  EXPECT_THAT(recall_->held(), Each(0));
  EXPECT_THAT(recall_->ExpectedHeld(), Each(9));
  Reply(PartOf({{1, 2}, {3}}));
  EXPECT_EQ(*recall_->Receive(Soon()), true);
  EXPECT_TRUE(recall_->IsReady());
  EXPECT_THAT(Active(0), IsEmpty());
  EndReply();
  EXPECT_EQ(*recall_->Wait({}), true);
  EXPECT_FALSE(recall_->in_flight());
  EXPECT_THAT(Active(0), ElementsAre(1, 2));
  EXPECT_THAT(Active(1), ElementsAre(3));
  EXPECT_THAT(recall_->held(), Each(9));
  EXPECT_EQ(channel_.applied, 1);
  EXPECT_EQ(stats_.units_missed, 3u);
  EXPECT_EQ(stats_.bytes_moved, 3 * UnitBytes(spec_));
}

TEST_F(LayerRecallTest, AResidentSelectionIsActiveAtOnceForItsHeads) {
  Reply(PartOf({{1, 2}, {3, 4}}));
  EndReply();
  ASSERT_EQ(recall_->Start(Plan({{1, 2}, {3, 4}}, 9), Priority::kCorrection), OkStatus());
  ASSERT_TRUE(recall_->Wait({}).ok());
  ASSERT_EQ(recall_->Start(Plan({{2}, {3}}, 10, {true, false}), Priority::kPrefetch), OkStatus());
  EXPECT_FALSE(recall_->in_flight());
  EXPECT_THAT(Active(0), ElementsAre(2));
  EXPECT_THAT(Active(1), ElementsAre(3, 4));
  EXPECT_THAT(recall_->held(), ElementsAre(10, 9));
  EXPECT_EQ(channel_.wants.size(), 1u);
}

TEST_F(LayerRecallTest, AfterADeadlineItIsStillInFlight) {
  ASSERT_EQ(recall_->Start(Plan({{1}, {3}}, 9), Priority::kPrefetch), OkStatus());
  EXPECT_EQ(*recall_->Wait(Soon()), false);
  EXPECT_TRUE(recall_->in_flight());
  EXPECT_FALSE(recall_->failed());
  EXPECT_EQ(stats_.stalled, kStep);
  Reply(PartOf({{1}, {3}}));
  EXPECT_EQ(*recall_->Wait(Soon()), true) << "the end of the reply is not waited for";
  EXPECT_THAT(Active(1), ElementsAre(3));
}

TEST_F(LayerRecallTest, ResidentPagesOfARecallInFlightMayBeActive) {
  Reply(PartOf({{1, 2}, {3, 4}}));
  EndReply();
  ASSERT_EQ(recall_->Start(Plan({{1, 2}, {3, 4}}, 9), Priority::kCorrection), OkStatus());
  ASSERT_TRUE(recall_->Wait({}).ok());
  ASSERT_EQ(recall_->Start(Plan({{2}, {5}}, 10), Priority::kPrefetch), OkStatus());
  ASSERT_EQ(recall_->ActivateResident(), OkStatus());
  EXPECT_THAT(Active(0), ElementsAre(2));
  EXPECT_THAT(Active(1), ElementsAre(3, 4));
  EXPECT_THAT(recall_->held(), ElementsAre(10, 9));
}

TEST_F(LayerRecallTest, ItIsUselessWhereNothingThatIsMissingIsWantedAnyMore) {
  Reply(PartOf({{1, 2}, {3, 4}}));
  EndReply();
  ASSERT_EQ(recall_->Start(Plan({{1, 2}, {3, 4}}, 9), Priority::kCorrection), OkStatus());
  ASSERT_TRUE(recall_->Wait({}).ok());
  ASSERT_EQ(recall_->Start(Plan({{2, 5}, {3, 4}}, 10), Priority::kPrefetch), OkStatus());
  EXPECT_TRUE(recall_->BringsNoneOf(std::vector<std::vector<uint32_t>>{{2, 6}, {3, 5}}));
  EXPECT_FALSE(recall_->BringsNoneOf(std::vector<std::vector<uint32_t>>{{5, 6}, {3, 4}}));
}

TEST_F(LayerRecallTest, DropCancelsAndEmptiesTheSlotsOfWhatHasCome) {
  ASSERT_EQ(recall_->Start(Plan({{1}, {3}}, 9), Priority::kPrefetch), OkStatus());
  recall_->Drop();
  EXPECT_EQ(channel_.cancelled, 1);
  EXPECT_EQ(channel_.spoiled, 0);
  ASSERT_EQ(recall_->Start(Plan({{1}, {3}}, 9), Priority::kPrefetch), OkStatus());
  Reply(PartOf({{1}, {3}}));
  ASSERT_TRUE(recall_->Receive(Soon()).ok());
  recall_->Drop();
  EXPECT_FALSE(recall_->in_flight());
  EXPECT_EQ(channel_.cancelled, 2);
  EXPECT_EQ(channel_.spoiled, 1);
  EXPECT_FALSE(cache_->table(kLayer).IsResident(0, 1));
  EXPECT_THAT(recall_->held(), Each(0));
}

TEST_F(LayerRecallTest, AnErrorOfTheChannelMayBeMadeUpFor) {
  channel_.refusal = Unavailable("no server");
  EXPECT_EQ(recall_->Start(Plan({{1}, {3}}, 9), Priority::kPrefetch).code(),
            StatusCode::kUnavailable);
  EXPECT_FALSE(recall_->in_flight());
  channel_.refusal = OkStatus();
  ASSERT_EQ(recall_->Start(Plan({{1}, {3}}, 9), Priority::kPrefetch), OkStatus());
  channel_.replies.emplace_back(Unavailable("the server is gone"));
  EXPECT_EQ(recall_->Wait({}).status().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(recall_->failed());
  EXPECT_FALSE(recall_->in_flight());
}

TEST_F(LayerRecallTest, AReplyOfAnotherLayerIsRefusedAndNotMadeUpFor) {
  ASSERT_EQ(recall_->Start(Plan({{1}, {3}}, 9), Priority::kPrefetch), OkStatus());
  RecallPart part = PartOf({{1}, {3}});
  part.placements[1].layer = 0;
  Reply(std::move(part));
  EXPECT_EQ(recall_->Wait({}).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_FALSE(recall_->failed());
  EXPECT_FALSE(recall_->in_flight());
  EXPECT_THAT(Active(0), IsEmpty());
}

TEST_F(LayerRecallTest, AReplyThatEndsWithoutItsUnitsIsAnError) {
  ASSERT_EQ(recall_->Start(Plan({{1}, {3}}, 9), Priority::kPrefetch), OkStatus());
  EndReply();
  EXPECT_EQ(recall_->Wait({}).status().code(), StatusCode::kInternal);
  EXPECT_FALSE(recall_->in_flight());
}

TEST_F(LayerRecallTest, DamagedUnitsAreReportedAndRecalledAgain) {
  ASSERT_EQ(recall_->Start(Plan({{1}, {3}}, 9), Priority::kCorrection), OkStatus());
  RecallPart part = PartOf({{1}, {3}});
  ++part.checksums[1];
  Reply(std::move(part));
  EXPECT_EQ(recall_->Wait({}).status().code(), StatusCode::kDataLoss);
  EXPECT_TRUE(recall_->failed());
  EXPECT_THAT(channel_.mismatched, ElementsAre(3));
  EXPECT_EQ(channel_.spoiled, 1);
  EXPECT_THAT(Active(0), IsEmpty());
  Reply(PartOf({{1}, {3}}));
  EndReply();
  ASSERT_EQ(recall_->Retry(Plan({{1}, {3}}, 9)), OkStatus());
  EXPECT_FALSE(recall_->failed());
  EXPECT_THAT(Active(0), ElementsAre(1));
}

TEST_F(LayerRecallTest, UnitsThatStayDamagedAreRecalledAFewTimes) {
  for (int i = 0; i < 5; ++i) {
    RecallPart part = PartOf({{1}, {3}});
    ++part.checksums[0];
    Reply(std::move(part));
  }
  EXPECT_EQ(recall_->Retry(Plan({{1}, {3}}, 9)).code(), StatusCode::kDataLoss);
  EXPECT_EQ(channel_.wants.size(), 3u);
  EXPECT_EQ(stats_.units_damaged, 3u);
  EXPECT_TRUE(recall_->failed());
}

TEST_F(LayerRecallTest, AServersSelectionIsActiveForItsHeadsAndPlannedForTheOthers) {
  ASSERT_EQ(recall_->Start(Query(9, {true, false}), Priority::kCorrection), OkStatus());
  RecallPart part = PartOf({{1}, {}});
  part.lanes[0].selected = {{1}, {3, 4}};
  Reply(std::move(part));
  EndReply();
  ASSERT_TRUE(recall_->Wait({}).ok());
  EXPECT_THAT(Active(0), ElementsAre(1));
  EXPECT_THAT(Active(1), IsEmpty());
  EXPECT_THAT(recall_->held(), ElementsAre(9, 0));
  const std::optional<PlannedRecall> next = recall_->TakeFollowUp();
  ASSERT_TRUE(next);
  EXPECT_EQ(next->want.layer, kLayer);
  EXPECT_THAT(next->want.pages.Head(1), ElementsAre(3, 4));
  EXPECT_EQ(next->position, 9u);
  EXPECT_THAT(next->heads, Each(true));
  EXPECT_FALSE(recall_->TakeFollowUp());
}

TEST_F(LayerRecallTest, UnitsThatComeInPiecesAreReadyWithTheLastOne) {
  quire::testing::ManualExecutor executor;
  with_.executor = &executor;
  options_.units_per_buffer = 1;
  MakeRecall();
  ASSERT_EQ(recall_->Start(Plan({{1, 2}, {}}, 9), Priority::kPrefetch), OkStatus());
  EXPECT_EQ(channel_.piece_bytes, UnitBytes(spec_));
  RecallPart first = PartOf({{1, 2}, {}});
  RecallPart second;
  second.payload.Append(std::vector<std::byte>(UnitBytes(spec_)));
  first.payload = second.payload;
  first.bytes_to_come = UnitBytes(spec_);
  Reply(std::move(first));
  EXPECT_EQ(*recall_->Receive(Soon()), false);
  EXPECT_FALSE(recall_->IsReady());
  Reply(std::move(second));
  EXPECT_EQ(*recall_->Receive(Soon()), true);
  EndReply();
  EXPECT_EQ(*recall_->Wait({}), true);
  EXPECT_THAT(Active(0), ElementsAre(1, 2));
}

/// Gives keys of one byte.
class ByteKeys final : public KeySource {
 public:
  void FillKeys(uint32_t layer, uint32_t, uint32_t page, std::span<std::byte> keys) const override {
    EXPECT_EQ(layer, kLayer);
    filled.push_back(page);
    bytes = keys.size();
  }
  mutable std::vector<uint32_t> filled;
  mutable size_t bytes = 0;
};

TEST_F(LayerRecallTest, KeysAreFilledInWhereValuesAloneCome) {
  const ByteKeys keys;
  with_.keys = &keys;
  MakeRecall();
  ASSERT_EQ(recall_->Start(Plan({{1}, {3}}, 9), Priority::kPrefetch), OkStatus());
  const size_t half = UnitBytes(spec_) / 2;
  RecallPart part = PartOf({{1}, {3}});
  part.payload = {};
  part.payload.Append(std::vector<std::byte>(2 * half));
  part.checksums.assign(2, Crc32c(std::vector<std::byte>(half)));
  Reply(std::move(part));
  EndReply();
  ASSERT_EQ(*recall_->Wait({}), true);
  EXPECT_THAT(keys.filled, ElementsAre(1, 3));
  EXPECT_EQ(keys.bytes, half);
  EXPECT_EQ(stats_.bytes_moved, 2 * half);
}

}  // namespace
}  // namespace quire::worker
