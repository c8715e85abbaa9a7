// SPDX-License-Identifier: Apache-2.0
//
// Recalls in flight: parts in order, several at once, and every fate of a reply. Replies are lost,
// late, duplicated, cut short, from another exchange, or cancelled. Promise 4: a stale reply is
// refused, never silently applied.
#include "quire/pending_recall.h"

#include <string>
#include <vector>

#include "client/recall_test_kit.h"
#include "common/base/memory/payload_cutter.h"
#include "common/base/retry_hint.h"
#include "quire/layout.h"

namespace quire {
namespace {

using namespace internal;

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ScriptedCall;

constexpr const char* kResync = "quire.v1.Session/Resync";

class PendingRecallTest : public testing::SessionFixture {
 protected:
  /// Starts a recall that must start.
  std::unique_ptr<PendingRecall> Start(std::vector<LayerWant> wants,
                                       const RecallOptions& options = {}) {
    auto recall = session_->Start(std::move(wants), options);
    EXPECT_TRUE(recall.ok()) << recall.status();
    return recall.ok() ? *std::move(recall) : nullptr;
  }
  /// The layers of the next part; empty at the end.
  static std::vector<uint32_t> NextLayers(PendingRecall& recall) {
    const auto part = recall.Next();
    EXPECT_TRUE(part.ok()) << part.status();
    std::vector<uint32_t> layers;
    if (part.ok() && part->has_value()) {
      for (const RecalledLane& lane : (*part)->lanes) layers.push_back(lane.layer);
    }
    return layers;
  }
  /// A step that brings units [first, first + count) of `lanes`; the lanes come with the first.
  ScriptedCall::Step Piece(std::vector<testing::LaneRows> lanes, size_t first, size_t count) const {
    return [this, whole = Part(std::move(lanes)), first,
            count](const ScriptedCall& call) -> StatusOr<std::optional<CallMessage>> {
      const CallMessage part = **whole(call);
      const uint64_t skipped = first * UnitBytes(spec_);
      PayloadCutter cutter(part.payload);
      (void)cutter.Cut(skipped);
      CallMessage piece;
      if (first == 0) piece.control = part.control;
      piece.payload = cutter.Cut(count * UnitBytes(spec_));
      piece.bytes_to_come = part.payload.size_bytes() - skipped - piece.payload.size_bytes();
      return piece;
    };
  }
  size_t resyncs() const {
    return static_cast<size_t>(std::ranges::count_if(
        server_.calls(), [](const auto& call) { return call.method == kResync; }));
  }
};

TEST_F(PendingRecallTest, PartsComeInTheOrderAskedAndThenTheEnd) {
  const auto call = Expect({Part({{0, 1, {{0, 0, 1, 3}}}}), Part({{0, 0, {{0, 1, 1, 4}}}}), End()});
  const auto recall = Start({Want(1, 3), Want(0, 4)}, {.priority = Priority::kCorrection});
  EXPECT_TRUE(call->started);
  EXPECT_EQ(call->options.priority, Priority::kCorrection);
  EXPECT_EQ(call->options.tenant, "default");
  EXPECT_EQ(call->options.landing, nullptr);
  EXPECT_FALSE(call->request.place());
  const auto first = recall->Next();
  ASSERT_TRUE(first.ok() && first->has_value()) << first.status();
  EXPECT_EQ((*first)->lanes[0].layer, 1u);
  EXPECT_EQ(testing::Bytes((*first)->payload), testing::UnitOfPage(spec_, 3));
  session_->Applied(**first);
  EXPECT_EQ(PageIn(1, 0), 3);
  EXPECT_EQ(PageIn(0, 1), -1);
  EXPECT_EQ(NextLayers(*recall), (std::vector<uint32_t>{0}));
  EXPECT_EQ(NextLayers(*recall), (std::vector<uint32_t>{}));
  EXPECT_EQ(NextLayers(*recall), (std::vector<uint32_t>{}));  // The end stays.
}

/// Two units of head 0.
const std::vector<testing::LaneRows> kTwoUnits = {{0, 0, {{0, 0, 1, 3}, {0, 1, 1, 4}}}};
const LayerWant kTwoPages = {.layer = 0, .pages = {{3, 4}, {}}};
constexpr RecallOptions kInPieces = {.verify = false, .piece_bytes = 1};

TEST_F(PendingRecallTest, PiecesFollowTheirPartAndTheLaneIsUnderWayUntilTheLast) {
  const auto call = Expect({Piece(kTwoUnits, 0, 1), Piece(kTwoUnits, 1, 1), End()});
  const auto recall = Start({kTwoPages}, kInPieces);
  EXPECT_EQ(call->options.piece_bytes, 1u);
  const auto part = recall->Next();
  ASSERT_TRUE(part.ok() && part->has_value()) << part.status();
  EXPECT_EQ((*part)->lanes.size(), 1u);
  EXPECT_EQ((*part)->placements.size(), 2u);
  EXPECT_EQ(testing::Bytes((*part)->payload), testing::UnitOfPage(spec_, 3));
  EXPECT_EQ((*part)->bytes_to_come, UnitBytes(spec_));
  EXPECT_TRUE(IsInvalidArgument(session_->Start({Want(0, 4)}).status()));
  const auto piece = recall->Next();
  ASSERT_TRUE(piece.ok() && piece->has_value()) << piece.status();
  EXPECT_TRUE((*piece)->lanes.empty());
  EXPECT_EQ(testing::Bytes((*piece)->payload), testing::UnitOfPage(spec_, 4));
  EXPECT_EQ((*piece)->bytes_to_come, 0u);
  session_->Applied(**part);
  EXPECT_EQ(PageIn(0, 1), 4);
  EXPECT_EQ(NextLayers(*recall), (std::vector<uint32_t>{}));
}

TEST_F(PendingRecallTest, APartWhosePiecesBreakOffComesAnewIntoEmptySlots) {
  RecallAndApply(0, 9);
  Expect({Piece({{0, 0, {{0, 0, 2, 3, 9}, {0, 1, 1, 4}}}}, 0, 1), Fail(Unavailable("it died"))});
  server_.Reply(kResync, v1::ResyncReply());
  const auto again = ExpectPart({{0, 0, {{0, 0, 2, 3}, {0, 1, 1, 4}}}});
  const auto recall = Start({kTwoPages}, kInPieces);
  EXPECT_EQ(NextLayers(*recall), (std::vector<uint32_t>{0}));
  EXPECT_EQ(PageIn(0, 0), 9);
  const auto part = recall->Next();
  ASSERT_TRUE(part.ok() && part->has_value()) << part.status();
  EXPECT_EQ(resyncs(), 1u);
  EXPECT_EQ((*part)->payload.size_bytes(), 2 * UnitBytes(spec_));
  EXPECT_EQ(PageIn(0, 0), -1);
  session_->Applied(**part);
  EXPECT_EQ(PageIn(0, 0), 3);
  EXPECT_EQ(PageIn(0, 1), 4);
}

TEST_F(PendingRecallTest, PiecesThatDoNotFitBreakTheProtocol) {
  const std::vector<std::deque<ScriptedCall::Step>> scripts = {
      {Piece(kTwoUnits, 0, 1), Piece(kTwoUnits, 0, 1)},  // Lanes where a piece has to come.
      {Piece(kTwoUnits, 0, 1), Piece(kTwoUnits, 2, 0)},  // Nothing.
      {Piece(kTwoUnits, 0, 1), End()}};                  // And no more.
  for (size_t i = 0; i < scripts.size(); ++i) {
    SCOPED_TRACE(i);
    server_.Reply(kResync, v1::ResyncReply());
    Expect(scripts[i]);
    const auto recall = Start({kTwoPages}, kInPieces);
    StatusOr<std::optional<RecallPart>> part = recall->Next();
    while (part.ok() && part->has_value()) part = recall->Next();
    EXPECT_EQ(part.status().code(), StatusCode::kDataLoss) << part.status();
  }
}

TEST_F(PendingRecallTest, WhoLetsTheSessionVerifyGetsWholeParts) {
  EXPECT_TRUE(IsInvalidArgument(session_->Start({kTwoPages}, {.piece_bytes = 1}).status()));
  const auto call = ExpectPart(kTwoUnits);
  EXPECT_TRUE(session_->Recall({&kTwoPages, 1}, {.piece_bytes = 1}).ok());
  EXPECT_EQ(call->options.piece_bytes, 0u);
}

TEST_F(PendingRecallTest, AServerThatIsOverloadedMidwayIsAskedAgainForTheRest) {
  Expect({Part({{0, 1, {{0, 0, 1, 3}}}}), Fail(ResourceExhausted("the SSD is busy"))});
  const auto again = ExpectPart({{0, 0, {{0, 1, 1, 4}}}});
  const auto recall = Start({Want(1, 3), Want(0, 4)});
  EXPECT_EQ(NextLayers(*recall), (std::vector<uint32_t>{1}));
  EXPECT_EQ(NextLayers(*recall), (std::vector<uint32_t>{0}));
  EXPECT_EQ(again->request.wants_size(), 1);
}

TEST_F(PendingRecallTest, WhatDoesNotFitAtAllIsNotAskedForAgain) {
  Expect({Fail(ResourceExhausted("more than a message"))});
  const auto recall = Start({Want(1, 3)});
  EXPECT_TRUE(IsResourceExhausted(recall->Next().status()));
}

TEST_F(PendingRecallTest, ALaneMayBeAskedForAgainAsSoonAsItsPartHasCome) {
  Expect({Part({{0, 0, {{0, 0, 1, 3}}}}), Part({{0, 1, {{0, 0, 1, 3}}}}), End()});
  const auto both = Start({Want(0, 3), Want(1, 3)});
  const auto part = both->Next();
  ASSERT_TRUE(part.ok());
  session_->Applied(**part);
  ExpectPart({{0, 0, {{0, 1, 1, 4}}}});
  const auto again = Start({Want(0, 4)});
  EXPECT_EQ(NextLayers(*again), (std::vector<uint32_t>{0}));
  EXPECT_EQ(NextLayers(*both), (std::vector<uint32_t>{1}));
}

TEST_F(PendingRecallTest, ACorrectionOvertakesAPrefetchOfOtherLanes) {
  const auto prefetch_call = Expect({Part({{0, 1, {{0, 0, 1, 3}}}}), End()});
  const auto correction_call = Expect({Part({{0, 0, {{0, 0, 1, 4}}}}), End()});
  const auto prefetch = Start({Want(1, 3)}, {.priority = Priority::kPrefetch});
  const auto correction = Start({Want(0, 4)}, {.priority = Priority::kCorrection});
  EXPECT_GT(correction_call->request.exchange(), prefetch_call->request.exchange());
  EXPECT_EQ(NextLayers(*correction), (std::vector<uint32_t>{0}));
  EXPECT_EQ(NextLayers(*prefetch), (std::vector<uint32_t>{1}));
}

TEST_F(PendingRecallTest, ALaneThatIsUnderWayIsRefusedUntilItIsCancelled) {
  const auto first_call = Expect({});
  const auto first = Start({Want(0, 3)});
  const auto refused = session_->Start({Want(0, 4)});
  EXPECT_TRUE(IsInvalidArgument(refused.status())) << refused.status();
  EXPECT_FALSE(first_call->cancelled);
  const LayerWant other_sequence = Want(0, 4, 1);
  ExpectPart({{1, 0, {{0, 0, 1, 4}}}});
  EXPECT_TRUE(session_->Recall({&other_sequence, 1}).ok());

  first->Cancel();
  EXPECT_TRUE(first_call->cancelled);
  EXPECT_TRUE(first_call->gone);
  EXPECT_EQ(first->Next().status().code(), StatusCode::kCancelled);
  const auto second_call = ExpectPart({{0, 0, {{0, 0, 1, 4}}}});
  const auto second = Start({Want(0, 4)});
  EXPECT_EQ(NextLayers(*second), (std::vector<uint32_t>{0}));
  EXPECT_EQ(second_call->request.wants(0).applied(0), 0u);
  EXPECT_GT(second_call->request.exchange(), first_call->request.exchange());
}

TEST_F(PendingRecallTest, DestroyingARecallCancelsIt) {
  const auto call = Expect({});
  Start({Want(0, 3)}).reset();
  EXPECT_TRUE(call->cancelled);
  EXPECT_TRUE(call->gone);
  ExpectPart({{0, 0, {{0, 0, 1, 3}}}});
  EXPECT_NE(Start({Want(0, 3)}), nullptr);
}

TEST_F(PendingRecallTest, ADeadlineOfNextLeavesTheRecallUnderWay) {
  const auto call = Expect({});
  const auto recall = Start({Want(0, 3)});
  const TimePoint soon = clock_.Now() + milliseconds(5);
  EXPECT_TRUE(IsDeadlineExceeded(recall->Next(soon).status()));
  EXPECT_EQ(clock_.Now(), soon);
  EXPECT_FALSE(call->cancelled);
  call->steps = {Part({{0, 0, {{0, 0, 1, 3}}}}), End()};
  EXPECT_EQ(NextLayers(*recall), (std::vector<uint32_t>{0}));
  EXPECT_EQ(data_->started(), 1u);
}

TEST_F(PendingRecallTest, ARecallEndsWhenItsOwnTimeIsUp) {
  const auto call = Expect({});
  const auto recall = Start({Want(0, 3)}, {.timeout = seconds(2)});
  EXPECT_EQ(call->options.timeout, Duration(seconds(2)));
  EXPECT_TRUE(IsDeadlineExceeded(recall->Next().status()));
  EXPECT_EQ(clock_.Now(), recall->deadline());
  EXPECT_TRUE(IsDeadlineExceeded(recall->Next(TimePoint::max()).status()));
  ExpectPart({{0, 0, {{0, 0, 1, 3}}}});
  EXPECT_NE(Start({Want(0, 3)}), nullptr);  // The lane is free again.
}

TEST_F(PendingRecallTest, ALostReplyIsAskedForAgainUnderAHigherNumber) {
  const auto lost = Expect({Fail(Unavailable("the peer died"))});
  const auto again = ExpectPart({{0, 0, {{0, 0, 1, 3}}}});
  const auto recall = Start({Want(0, 3)});
  EXPECT_EQ(NextLayers(*recall), (std::vector<uint32_t>{0}));
  EXPECT_GT(again->request.exchange(), lost->request.exchange());
  EXPECT_EQ(again->request.wants(0).applied(0), 0u);
  EXPECT_EQ(resyncs(), 0u);
}

TEST_F(PendingRecallTest, AfterALossOnlyWhatHasNotComeIsAskedForAgain) {
  LayerWant both = Want(0, 3);
  both.num_layers = 2;
  Expect({Part({{0, 0, {{0, 0, 1, 3}}}}), Fail(Unavailable("the peer died"))});
  const auto again = ExpectPart({{0, 1, {{0, 0, 1, 3}}}});
  const auto result = session_->Recall({&both, 1});
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->lanes.size(), 2u);
  EXPECT_EQ(result->lanes[1].exchange, again->request.exchange());
  EXPECT_LT(result->lanes[0].exchange, result->lanes[1].exchange);
  EXPECT_EQ(again->request.wants(0).first_layer(), 1u);
  EXPECT_EQ(again->request.wants(0).num_layers(), 1u);
  session_->Applied(*result);
  EXPECT_EQ(PageIn(0, 0), 3);
  EXPECT_EQ(PageIn(1, 0), 3);
}

TEST_F(PendingRecallTest, ARefusalIsWaitedOutAsLongAsItsHintSays) {
  Expect({Fail(WithRetryAfter(ResourceExhausted("busy"), milliseconds(700)))});
  ExpectPart({{0, 0, {{0, 0, 1, 3}}}});
  const TimePoint start = clock_.Now();
  const auto recall = Start({Want(0, 3)});
  EXPECT_TRUE(IsDeadlineExceeded(recall->Next(start + milliseconds(10)).status()));
  EXPECT_EQ(data_->started(), 1u);
  EXPECT_EQ(NextLayers(*recall), (std::vector<uint32_t>{0}));
  EXPECT_GE(clock_.Now() - start, milliseconds(700));
}

TEST_F(PendingRecallTest, APeerThatCannotBeReachedIsTriedUntilTheDeadline) {
  for (int i = 0; i < 100; ++i) data_->Expect()->start = Unavailable("no route");
  const TimePoint start = clock_.Now();
  const auto recall = Start({Want(0, 3)});
  const Status end = recall->Next().status();
  EXPECT_TRUE(IsDeadlineExceeded(end)) << end;
  EXPECT_NE(Message(end).find("no route"), std::string_view::npos) << end;
  EXPECT_GT(clock_.Now() - start, seconds(59));
  EXPECT_LE(clock_.Now() - start, seconds(60));
}

TEST_F(PendingRecallTest, AnErrorThatDoesNotPassEndsTheRecallAtOnce) {
  data_->Expect()->start = ResourceExhausted("the request is too large");
  EXPECT_TRUE(IsResourceExhausted(session_->Start({Want(0, 3)}).status()));
  Expect({Fail(NotFound("no session 77"))});
  const auto recall = Start({Want(0, 3)});
  EXPECT_TRUE(IsNotFound(recall->Next().status()));
  EXPECT_TRUE(IsNotFound(recall->Next().status()));
  EXPECT_EQ(data_->started(), 2u);
}

TEST_F(PendingRecallTest, AnErrorAfterTheLastLaneChangesNothing) {
  Expect({Part({{0, 0, {{0, 0, 1, 3}}}}), Fail(Unavailable("the peer died"))});
  const LayerWant want = Want(0, 3);
  const auto result = session_->Recall({&want, 1});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->lanes.size(), 1u);
}

TEST_F(PendingRecallTest, WhatHasComeWhenTheTimeIsUpMayBeApplied) {
  const auto call = Expect({Part({{0, 0, {{0, 0, 1, 3}}}})});
  const std::vector<LayerWant> wants = {Want(0, 3), Want(1, 4)};
  auto recall = session_->Start(wants, {.timeout = milliseconds(3)});
  ASSERT_TRUE(recall.ok()) << recall.status();
  const auto part = (*recall)->Next();
  ASSERT_TRUE(part.ok() && part->has_value()) << part.status();
  EXPECT_TRUE(IsDeadlineExceeded((*recall)->Next().status()));
  EXPECT_TRUE(call->cancelled);
  session_->Applied(**part);
  recall->reset();
  EXPECT_EQ(PageIn(0, 0), 3);
  EXPECT_EQ(PageIn(1, 0), -1);
  // The lane that did not come keeps its old map: the server takes its pending one back.
  const auto again = ExpectPart({{0, 1, {{0, 0, 1, 4}}}});
  ASSERT_TRUE(session_->Recall({&wants[1], 1}).ok());
  EXPECT_EQ(again->request.wants(0).applied(0), 0u);
  EXPECT_EQ(resyncs(), 0u);
}

TEST_F(PendingRecallTest, RepliesThatBreakTheProtocolAreRefusedAndTheNextRecallResynchronises) {
  const auto other_exchange = [](const ScriptedCall& call) {
    v1::RecallReply reply;
    reply.set_exchange(call.request.exchange() - 1);
    reply.set_epoch(call.request.epoch());
    reply.add_lanes();
    return CallMessage{reply.SerializeAsString(), {}};
  };
  const auto garbage = [](const ScriptedCall&) { return CallMessage{"\xff\xff", {}}; };
  const auto truncated = [this](const ScriptedCall& call) {
    CallMessage part = **Part({{0, 0, {{0, 0, 1, 3}}}})(call);
    part.control.resize(part.control.size() / 2);
    return part;
  };
  const std::vector<std::deque<ScriptedCall::Step>> scripts = {
      {other_exchange},
      {garbage},
      {truncated},
      {End()},  // Before anything came.
      {Part({{0, 0, {{0, 0, 7, 3}}}})},
      {Part({{0, 1, {{0, 0, 1, 3}}}})},
  };
  const LayerWant want = Want(0, 3);
  for (size_t i = 0; i < scripts.size(); ++i) {
    const auto call = Expect(scripts[i]);
    const Status status = session_->Recall({&want, 1}).status();
    const bool readable = i != 1 && i != 2;
    EXPECT_EQ(status.code(), readable ? StatusCode::kDataLoss : StatusCode::kInternal)
        << i << ": " << status;
    EXPECT_TRUE(call->gone) << i;
    EXPECT_EQ(PageIn(0, 0), -1) << i;
    server_.Reply(kResync, v1::ResyncReply());
  }
  ExpectPart({{0, 0, {{0, 0, 1, 3}}}});
  EXPECT_TRUE(session_->Recall({&want, 1}).ok());
  EXPECT_EQ(resyncs(), scripts.size());
}

TEST_F(PendingRecallTest, ADuplicatedPartIsRefused) {
  Expect({Part({{0, 0, {{0, 0, 1, 3}}}}), Part({{0, 0, {{0, 0, 1, 3}}}}), End()});
  const auto recall = Start({Want(0, 3)});
  EXPECT_EQ(NextLayers(*recall), (std::vector<uint32_t>{0}));
  EXPECT_TRUE(IsDataLoss(recall->Next().status()));
}

TEST_F(PendingRecallTest, AStaleRecallIsAskedForAgainUnderTheNewEpochInTheSameCall) {
  RecallAndApply(0, 3);
  const auto stale = Expect({Fail(FailedPrecondition("epoch 1 is over"))});
  server_.Reply(kResync, v1::ResyncReply());
  const auto again = ExpectPart({{0, 0, {{0, 1, 1, 4}}}});
  const LayerWant want = Want(0, 4);
  ASSERT_TRUE(session_->Recall({&want, 1}).ok());
  EXPECT_EQ(stale->request.epoch(), 1u);
  EXPECT_EQ(again->request.epoch(), 2u);
  EXPECT_EQ(again->request.wants(0).applied(0), 1u);
  EXPECT_GT(again->request.exchange(), stale->request.exchange());
}

TEST_F(PendingRecallTest, AServerThatStaysStaleIsReportedAndTheNextRecallResynchronisesFirst) {
  Expect({Fail(FailedPrecondition("stale"))});
  server_.Reply(kResync, v1::ResyncReply());
  Expect({Fail(FailedPrecondition("stale still"))});
  const LayerWant want = Want(0, 4);
  EXPECT_TRUE(IsFailedPrecondition(session_->Recall({&want, 1}).status()));
  EXPECT_EQ(resyncs(), 1u);
  server_.Reply(kResync, v1::ResyncReply());
  ExpectPart({{0, 0, {{0, 0, 1, 4}}}});
  ASSERT_TRUE(session_->Recall({&want, 1}).ok());
  EXPECT_EQ(resyncs(), 2u);
}

TEST_F(PendingRecallTest, AResyncThatFailsEndsTheRecall) {
  Expect({Fail(FailedPrecondition("stale"))});
  server_.Fail(kResync, NotFound("no session 77"));
  const LayerWant want = Want(0, 4);
  EXPECT_TRUE(IsNotFound(session_->Recall({&want, 1}).status()));
}

TEST_F(PendingRecallTest, AResyncStartsTheOtherRecallsAgainUnderTheNewEpoch) {
  const auto prefetch_call = Expect({});
  Expect({Fail(FailedPrecondition("stale"))});
  server_.Reply(kResync, v1::ResyncReply());
  ExpectPart({{0, 0, {{0, 0, 1, 4}}}});
  const auto prefetch_again = ExpectPart({{0, 1, {{0, 0, 1, 3}}}});
  const auto prefetch = Start({Want(1, 3)});
  const LayerWant want = Want(0, 4);
  ASSERT_TRUE(session_->Recall({&want, 1}).ok());
  EXPECT_TRUE(prefetch_call->cancelled);
  EXPECT_EQ(NextLayers(*prefetch), (std::vector<uint32_t>{1}));
  EXPECT_EQ(prefetch_again->request.epoch(), 2u);
  EXPECT_EQ(resyncs(), 1u);
}

TEST_F(PendingRecallTest, WhoOnlyLooksDoesNotWaitForAResync) {
  Expect({Fail(FailedPrecondition("stale"))});
  const auto recall = Start({Want(0, 3)});
  const size_t before = server_.calls().size();
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(IsDeadlineExceeded(recall->Next(clock_.Now()).status()));
  }
  EXPECT_EQ(server_.calls().size(), before);
  server_.Reply(kResync, v1::ResyncReply());
  ExpectPart({{0, 0, {{0, 0, 1, 3}}}});
  EXPECT_EQ(NextLayers(*recall), (std::vector<uint32_t>{0}));
  EXPECT_EQ(resyncs(), 1u);
}

TEST_F(PendingRecallTest, ClosingTheSessionEndsWhatIsUnderWay) {
  const auto call = Expect({});
  const auto recall = Start({Want(0, 3)});
  server_.Reply("quire.v1.Session/Close", v1::CloseSessionReply());
  EXPECT_TRUE(session_->Close().ok());
  EXPECT_TRUE(call->cancelled);
  session_.reset();
  EXPECT_EQ(recall->Next().status().code(), StatusCode::kCancelled);
}

}  // namespace
}  // namespace quire
