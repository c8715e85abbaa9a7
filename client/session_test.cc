// SPDX-License-Identifier: Apache-2.0
//
// Sessions: what is opened, sequences, acknowledgement, resynchronisation. Recalls in flight are in
// pending_recall_test.cc; what a reply may look like in recall_codec_test.cc.
#include "quire/session.h"

#include <algorithm>
#include <string>
#include <vector>

#include "client/recall/landing_area.h"
#include "client/recall_test_kit.h"
#include "client/validate.h"
#include "kernels/api/digest.h"
#include "tests/kit/fake_lease.h"
#include "tests/kit/same_bytes.h"

namespace quire {
namespace {

using namespace internal;

using testing::KeyOf;
using testing::RandomPayload;

constexpr const char* kSessionOpen = "quire.v1.Session/Open";
constexpr const char* kAddSequence = "quire.v1.Session/AddSequence";
constexpr const char* kRemoveSequence = "quire.v1.Session/RemoveSequence";
constexpr const char* kSessionResync = "quire.v1.Session/Resync";
constexpr const char* kClose = "quire.v1.Session/Close";
constexpr const char* kDigests = "quire.v1.Session/Digests";
constexpr const char* kScorePages = "quire.v1.Session/ScorePages";

class SessionTest : public testing::SessionFixture {
 protected:
  template <typename Request>
  Request LastRequest() const {
    return server_.RequestOf<Request>(server_.calls().size() - 1);
  }
  /// A part that is not applied yet, of page `page` in slot 0 of layer 0.
  RecallResult Recalled(uint32_t page, uint32_t generation = 1, int32_t replaced = -1) {
    ExpectPart({{0, 0, {{0, 0, generation, page, replaced}}}});
    const LayerWant want = Want(0, page);
    auto result = session_->Recall({&want, 1});
    EXPECT_TRUE(result.ok()) << result.status();
    return *std::move(result);
  }
  /// Exchange that the next recall of layer 0 says was applied. The recall is lost.
  uint64_t NextApplied() {
    const auto call = Expect({Fail(NotFound("lost"))});
    const LayerWant want = Want(0, 9);
    EXPECT_FALSE(session_->Recall({&want, 1}).ok());
    return call->request.wants(0).applied(0);
  }
};

TEST_F(SessionTest, OpeningTellsContextsAndTails) {
  EXPECT_EQ(session_->context().num_tokens, 18u);
  EXPECT_EQ(session_->members(1).size(), 1u);
  EXPECT_EQ(std::vector<TokenId>(session_->tail_tokens(1).begin(), session_->tail_tokens(1).end()),
            (std::vector<TokenId>{40, 41}));
  EXPECT_EQ(session_->slots_per_head(), kSlots);
  EXPECT_EQ(session_->transport_name(), "scripted");
}

TEST_F(SessionTest, WithoutADataTransportRecallsGoOverTheOtherOne) {
  server_.Reply(kSessionOpen, OpenReply(18, 1));
  const auto client = MakeClient();
  const auto session = client->OpenSession(KeyOf(3), {.spec = spec_, .slots_per_head = kSlots});
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ((*session)->transport_name(), "loopback");
  v1::RecallReply reply;
  reply.set_exchange(1);
  reply.set_epoch(1);
  Payload payload;
  testing::AddLane(spec_, {0, 0, {{0, 0, 1, 3}}}, &reply, &payload);
  server_.Reply("quire.v1.Session/Recall", reply, payload);
  const LayerWant want = Want(0, 3);
  EXPECT_TRUE((*session)->Recall({&want, 1}).ok());
}

TEST_F(SessionTest, MembersAreOpenedWithTheirOffsets) {
  v1::OpenSessionReply reply = OpenReply(18, 1);
  Open(16, reply.mutable_sequences(0));  // A second member.
  server_.Reply(kSessionOpen, reply);
  const SequenceSpec sequence = {
      .members = {{.context = KeyOf(3)}, {.context = uint64_t{9}, .position_offset = -18}}};
  const auto session =
      client_->OpenSession({&sequence, 1}, {.spec = spec_, .slots_per_head = kSlots});
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ((*session)->members().size(), 2u);
  EXPECT_EQ((*session)->context(0, 1).num_tokens, 16u);
  EXPECT_TRUE((*session)->tail_tokens(0, 1).empty());
  const auto request = LastRequest<v1::OpenSessionRequest>();
  ASSERT_EQ(request.sequences(0).members_size(), 2);
  EXPECT_EQ(request.sequences(0).members(0).position_offset(), 0);
  EXPECT_EQ(request.sequences(0).members(1).position_offset(), -18);
  EXPECT_EQ(request.sequences(0).members(1).context().open_context(), 9u);
}

TEST_F(SessionTest, SequencesAreAddedAndRemovedByNumber) {
  v1::AddSequenceReply reply;
  reply.set_sequence(2);
  Open(16, reply.mutable_opened());
  server_.Reply(kAddSequence, reply);
  const auto added = session_->AddSequence({.members = {{.context = KeyOf(2)}}});
  ASSERT_TRUE(added.ok()) << added.status();
  EXPECT_EQ(*added, 2u);
  EXPECT_EQ(session_->context(2).num_tokens, 16u);
  ExpectPart({{2, 1, {{0, 0, 1, 3}}}});
  const LayerWant want = Want(1, 3, 2);
  const auto result = session_->Recall({&want, 1});
  ASSERT_TRUE(result.ok()) << result.status();

  server_.Reply(kRemoveSequence, v1::RemoveSequenceReply());
  EXPECT_TRUE(session_->RemoveSequence(2).ok());
  EXPECT_EQ(LastRequest<v1::RemoveSequenceRequest>().sequence(), 2u);
  EXPECT_TRUE(IsInvalidArgument(session_->Recall({&want, 1}).status()));
  EXPECT_TRUE(IsInvalidArgument(session_->RemoveSequence(2)));
  session_->Applied(*result);  // Too late, and harmless.
  server_.Fail(kRemoveSequence, NotFound("no sequence 1"));
  EXPECT_TRUE(session_->RemoveSequence(1).ok());
}

TEST_F(SessionTest, ASequenceIsNotRemovedWhileARecallOfItIsUnderWay) {
  Expect({});
  auto recall = session_->Start({Want(1, 3, 1)});
  ASSERT_TRUE(recall.ok()) << recall.status();
  EXPECT_TRUE(IsInvalidArgument(session_->RemoveSequence(1)));
  (*recall)->Cancel();
  server_.Reply(kRemoveSequence, v1::RemoveSequenceReply());
  EXPECT_TRUE(session_->RemoveSequence(1).ok());
}

TEST_F(SessionTest, ASequenceUnderANumberThatIsTakenIsRefused) {
  v1::AddSequenceReply reply;
  reply.set_sequence(1);
  Open(16, reply.mutable_opened());
  server_.Reply(kAddSequence, reply);
  EXPECT_TRUE(IsDataLoss(session_->AddSequence({.members = {{.context = KeyOf(2)}}}).status()));
  reply.set_sequence(256);
  server_.Reply(kAddSequence, reply);
  EXPECT_TRUE(IsDataLoss(session_->AddSequence({.members = {{.context = KeyOf(2)}}}).status()));
  EXPECT_TRUE(IsInvalidArgument(session_->AddSequence({}).status()));
}

/// Sequence 2 has two of the session's three slots.
class FewerSlotsTest : public SessionTest {
 protected:
  void SetUp() override {
    SessionTest::SetUp();
    v1::AddSequenceReply reply;
    reply.set_sequence(2);
    Open(32, reply.mutable_opened());
    server_.Reply(kAddSequence, reply);
    const auto added =
        session_->AddSequence({.members = {{.context = KeyOf(2)}}, .slots_per_head = 2});
    ASSERT_TRUE(added.ok()) << added.status();
    asked_ = LastRequest<v1::AddSequenceRequest>();
  }

  v1::AddSequenceRequest asked_;
};

TEST_F(FewerSlotsTest, TheyAreAskedForAndOtherwiseTheSessions) {
  EXPECT_EQ(asked_.sequence().slots_per_head(), 2u);
  EXPECT_EQ(session_->slots_per_head(2), 2u);
  EXPECT_EQ(session_->slots_per_head(0), kSlots);
  EXPECT_EQ(session_->slots_per_head(), kSlots);
  server_.Reply(kSessionOpen, OpenReply(18, 2));
  const std::vector<SequenceSpec> sequences = {
      {.members = {{.context = KeyOf(3)}}, .slots_per_head = 1},
      {.members = {{.context = KeyOf(3)}}}};
  const auto session = client_->OpenSession(sequences, {.spec = spec_, .slots_per_head = 4});
  ASSERT_TRUE(session.ok()) << session.status();
  const auto request = LastRequest<v1::OpenSessionRequest>();
  EXPECT_EQ(request.slots_per_head(), 4u);
  EXPECT_EQ(request.sequences(0).slots_per_head(), 1u);
  EXPECT_EQ(request.sequences(1).slots_per_head(), 0u);
  EXPECT_EQ((*session)->slots_per_head(0), 1u);
  EXPECT_EQ((*session)->slots_per_head(1), 4u);
}

TEST_F(FewerSlotsTest, MorePagesAreRefusedBeforeTheyAreAskedFor) {
  const auto refusal = [&](const LayerWant& want) {
    const Status status = session_->Recall({&want, 1}).status();
    EXPECT_TRUE(IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  LayerWant want = {.sequence = 2, .layer = 1, .pages = {{1, 2, 3}, {}}};
  EXPECT_NE(refusal(want).find("sequence 2, layer 1: 3 pages for 2 slots per head"),
            std::string::npos)
      << refusal(want);
  want.held = want.pages;
  want.pages = {{1, 2}, {}};
  EXPECT_NE(refusal(want).find("held: 3 pages for 2 slots per head"), std::string::npos);
  LayerWant query = {.sequence = 2,
                     .layer = 1,
                     .query = std::vector<float>(size_t{spec_.num_query_heads} * spec_.key_dim()),
                     .candidates = {{.end_page = 4}},
                     .num_pages = 3};
  EXPECT_NE(refusal(query).find("num_pages is 3; it must be 1 to 2"), std::string::npos);
  const size_t before = server_.calls().size();
  for (const uint32_t slots : {kSlots + 1, ~0u}) {
    const SequenceSpec spec = {.members = {{.context = KeyOf(2)}}, .slots_per_head = slots};
    EXPECT_TRUE(IsInvalidArgument(session_->AddSequence(spec).status()));
    EXPECT_TRUE(IsInvalidArgument(
        client_->OpenSession({&spec, 1}, {.spec = spec_, .slots_per_head = kSlots}).status()));
  }
  EXPECT_EQ(server_.calls().size(), before);
  EXPECT_EQ(data_->started(), 0u);
}

TEST_F(FewerSlotsTest, AUnitForAnotherSlotIsRefused) {
  const LayerWant want = Want(1, 6, 2);
  ExpectPart({{2, 1, {{0, 2, 1, 6}}}});
  const Status refused = session_->Recall({&want, 1}).status();
  EXPECT_TRUE(IsDataLoss(refused)) << refused;
  EXPECT_NE(refused.message().find("slot 2 of 2"), std::string_view::npos) << refused;
}

TEST_F(FewerSlotsTest, AResyncSendsMapsOfTheSequencesShape) {
  ExpectPart({{2, 1, {{0, 1, 1, 6}}}});
  const LayerWant want = Want(1, 6, 2);
  const auto result = session_->Recall({&want, 1});
  ASSERT_TRUE(result.ok()) << result.status();
  session_->Applied(*result);
  Expect({Fail(FailedPrecondition("stale"))});
  server_.Reply(kSessionResync, v1::ResyncReply());
  RecallAndApply(0, 4);
  const auto resync = LastRequest<v1::ResyncRequest>();
  ASSERT_EQ(resync.lanes_size(), 1);
  EXPECT_EQ(resync.lanes(0).sequence(), 2u);
  wire::LaneSlots slots;
  ASSERT_TRUE(wire::DecodeLaneSlots(resync.lanes(0).slots(), 2 * 2, &slots).ok());
  EXPECT_EQ(slots.pages, (std::vector<int32_t>{-1, 6, -1, -1}));
  EXPECT_EQ(slots.generations, (std::vector<uint32_t>{0, 1, 0, 0}));
}

TEST_F(FewerSlotsTest, ALandingHasRoomForTheSessionsSlots) {
  const auto landing = session_->MakeLanding(3);
  ASSERT_TRUE(landing.ok()) << landing.status();
  EXPECT_EQ((*landing)->bytes().size(), 3 * 2 * 2 * kSlots * UnitBytes(spec_));
  const LayerWant want = {.sequence = 2, .layer = 1, .pages = {{}, {6}}};
  ExpectPart({{2, 1, {{1, 1, 1, 6}}}});
  const auto result = session_->Recall({&want, 1}, {.landing = landing->get()});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(testing::SameBytes((*landing)->Unit(2, 1, 1, 1), testing::UnitOfPage(spec_, 6)));
  EXPECT_EQ(result->payload.slices()[0].bytes.data(), (*landing)->Unit(2, 1, 1, 1).data());
}

/// Recalls whose parts are lent.
class LentPartsTest : public SessionTest {
 protected:
  /// Brings pages `first` and `first + 1`, in a part each that `leases` lend, a second after the
  /// request was sent.
  StatusOr<RecallResult> RecallLent(uint32_t first,
                                    std::vector<std::shared_ptr<testing::FakeLease>> leases) {
    std::deque<testing::ScriptedCall::Step> steps;
    for (uint32_t layer = 0; layer < 2; ++layer) {
      steps.push_back(
          [this, layer, first, lease = leases[layer]](const testing::ScriptedCall& call) {
            clock_.Advance(std::chrono::seconds(1));
            auto part = Part({{0, layer, {{0, 0, 1, first + layer}}}})(call);
            (*part)->payload.AddLease(lease);
            return part;
          });
    }
    steps.push_back(End());
    Expect(std::move(steps));
    const std::vector<LayerWant> wants = {Want(0, first), Want(1, first + 1)};
    return session_->Recall(wants);
  }
  static std::shared_ptr<testing::FakeLease> Lease(int seconds) {
    return std::make_shared<testing::FakeLease>(std::chrono::seconds(seconds));
  }
};

TEST_F(LentPartsTest, UnitsAreGoodUntilTheFirstLeaseEndsCountedFromBeforeTheRequest) {
  const TimePoint before = clock_.Now();
  const auto longer = Lease(10), shorter = Lease(5);
  const auto result = RecallLent(3, {longer, shorter});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->valid_until, before + std::chrono::seconds(5));
  EXPECT_TRUE(result->IsValid());
  longer->EndAfter(0);
  EXPECT_FALSE(result->IsValid());
}

TEST_F(LentPartsTest, WhatIsNotLentIsGoodForEver) {
  const RecallResult result = Recalled(3);
  EXPECT_EQ(result.valid_until, TimePoint::max());
  EXPECT_TRUE(result.IsValid());
}

TEST_F(LentPartsTest, ARenewedLeaseCountsFromBeforeItsRenewalAndOnlyWhileTheSessionIsOpen) {
  const auto first = Lease(10), second = Lease(5);
  auto result = RecallLent(3, {first, second});
  ASSERT_TRUE(result.ok()) << result.status();
  clock_.Advance(std::chrono::seconds(2));
  ASSERT_EQ(session_->Renew(&*result), OkStatus());
  EXPECT_EQ(result->valid_until, clock_.Now() + std::chrono::seconds(5));
  const TimePoint valid_until = result->valid_until;
  second->renewal = FailedPrecondition("it has ended");
  EXPECT_EQ(session_->Renew(&*result).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(result->valid_until, valid_until);
  second->renewal = OkStatus();
  server_.Reply("quire.v1.Session/Close", v1::CloseSessionReply());
  ASSERT_EQ(session_->Close(), OkStatus());
  EXPECT_EQ(session_->Renew(&*result).code(), StatusCode::kFailedPrecondition);
}

TEST_F(LentPartsTest, OwnedUnitsNeedNoLease) {
  const auto lease = Lease(5);
  auto result = RecallLent(3, {lease, Lease(5)});
  ASSERT_TRUE(result.ok()) << result.status();
  RecallPart own = *result, late = *result;
  ASSERT_EQ(own.OwnUnits(), OkStatus());
  EXPECT_EQ(own.valid_until, TimePoint::max());
  EXPECT_TRUE(own.payload.leases().empty());
  lease->EndAfter(0);
  EXPECT_TRUE(own.IsValid());
  const Slice units = own.payload.Flatten();
  const auto unit = testing::UnitOfPage(spec_, 3);
  EXPECT_TRUE(testing::SameBytes(units.bytes.first(unit.size()), unit));
  EXPECT_EQ(late.OwnUnits().code(), StatusCode::kFailedPrecondition);
}

TEST_F(SessionTest, AnAppliedRecallIsAcknowledgedByTheNextOfItsLane) {
  session_->Applied(Recalled(3));
  ExpectPart({{0, 1, {{0, 0, 1, 3}}}});
  const LayerWant other = Want(1, 3);
  session_->Applied(*session_->Recall({&other, 1}));
  EXPECT_EQ(NextApplied(), 1u);  // The lane's own, not the session's last.
}

TEST_F(SessionTest, ARecallThatWasNotAppliedIsTakenBackByTheNext) {
  Recalled(3);
  Recalled(4);
  EXPECT_EQ(PageIn(0, 0), -1);
  EXPECT_EQ(NextApplied(), 0u);
}

TEST_F(SessionTest, AResultAppliedTwiceCountsOnce) {
  const RecallResult result = Recalled(3);
  session_->Applied(result);
  session_->Applied(result);
  EXPECT_EQ(PageIn(0, 0), 3);
  EXPECT_EQ(NextApplied(), 1u);
}

TEST_F(SessionTest, ApplyingWhatWasSupersededMakesTheLaneUnknown) {
  const RecallResult old = Recalled(3);
  session_->Applied(Recalled(4));
  session_->Applied(old);  // Its unit has gone over that of page 4.
  EXPECT_EQ(PageIn(0, 0), -1);
  server_.Reply(kSessionResync, v1::ResyncReply());
  session_->Applied(Recalled(5, 2));
  EXPECT_EQ(PageIn(0, 0), 5);
  EXPECT_EQ(LastRequest<v1::ResyncRequest>().epoch(), 2u);
}

TEST_F(SessionTest, WhatAResyncCameOverCountsAndTheServerHearsOfIt) {
  const RecallResult prefetched = Recalled(3);
  Expect({Fail(FailedPrecondition("stale"))});  // A recall of another lane synchronises.
  server_.Reply(kSessionResync, v1::ResyncReply());
  RecallAndApply(1, 4);
  session_->Applied(prefetched);
  EXPECT_EQ(PageIn(0, 0), 3);
  server_.Reply(kSessionResync, v1::ResyncReply());
  session_->Applied(Recalled(5, 2, /*replaced=*/3));
  EXPECT_EQ(PageIn(0, 0), 5);
  const auto resync = LastRequest<v1::ResyncRequest>();
  EXPECT_EQ(resync.epoch(), 3u);
  ASSERT_EQ(resync.lanes_size(), 2);
  EXPECT_EQ(resync.lanes(0).applied(), 1u);
  wire::LaneSlots slots;
  ASSERT_TRUE(wire::DecodeLaneSlots(resync.lanes(0).slots(), 2 * kSlots, &slots).ok());
  EXPECT_EQ(slots.pages[0], 3);
}

TEST_F(SessionTest, AResyncSendsEveryLaneThatHoldsSomething) {
  RecallAndApply(1, 3);
  Expect({Fail(FailedPrecondition("stale"))});
  server_.Reply(kSessionResync, v1::ResyncReply());
  RecallAndApply(0, 4);
  const auto resync = LastRequest<v1::ResyncRequest>();
  EXPECT_EQ(resync.session_id(), 77u);
  EXPECT_EQ(resync.epoch(), 2u);
  ASSERT_EQ(resync.lanes_size(), 1);
  EXPECT_EQ(resync.lanes(0).layer(), 1u);
  EXPECT_EQ(resync.lanes(0).applied(), 1u);
  wire::LaneSlots slots;
  ASSERT_TRUE(wire::DecodeLaneSlots(resync.lanes(0).slots(), 2 * kSlots, &slots).ok());
  EXPECT_EQ(slots.pages[0], 3);
  EXPECT_EQ(slots.generations[0], 1u);
  EXPECT_EQ(slots.pages[1], -1);
}

TEST_F(SessionTest, AResyncWhoseReplyWasLostIsRepeatedUnderAHigherEpoch) {
  Expect({Fail(FailedPrecondition("stale"))});
  server_.Fail(kSessionResync, Unavailable("the reply was lost"));
  server_.Fail(kSessionResync, FailedPrecondition("epoch 2 is not above 2"));
  server_.Reply(kSessionResync, v1::ResyncReply());
  const auto again = ExpectPart({{0, 0, {{0, 0, 1, 4}}}});
  const LayerWant want = Want(0, 4);
  ASSERT_TRUE(session_->Recall({&want, 1}).ok());
  EXPECT_EQ(again->request.epoch(), 3u);
}

v1::DigestsReply DigestsReplyOf(const Payload& payload) {
  v1::DigestsReply reply;
  reply.set_payload_crc32c(PayloadCrc32c(payload));
  return reply;
}

// Promise 2: digests that change on the way are not used, and asked for again.
TEST_F(SessionTest, Promise2DigestsMustMatchTheirChecksum) {
  const std::vector<uint32_t> layers = {0};
  const Payload digests = RandomPayload(3 * 2 * 2 * 8 * 4, 1);
  const Payload others = RandomPayload(3 * 2 * 2 * 8 * 4, 2);
  server_.Reply(kDigests, DigestsReplyOf(digests), others);
  server_.Reply(kDigests, DigestsReplyOf(digests), digests);
  EXPECT_EQ(PayloadCrc32c(*session_->Digests(layers, 1, 4)), PayloadCrc32c(digests));
  for (uint32_t times = 0; times <= kMaxRechecks; ++times) {
    server_.Reply(kDigests, DigestsReplyOf(digests), others);
  }
  EXPECT_TRUE(IsDataLoss(session_->Digests(layers, 1, 4).status()));
}

TEST_F(SessionTest, DigestsMustHaveTheSizeAskedFor) {
  const std::vector<uint32_t> layers = {0, 1};
  const uint64_t bytes = 2 * 3 * 2 * 2 * 8 * 4;  // [layers][pages][n_kv][2][d] of 4 bytes
  const Payload right = RandomPayload(bytes, 1);
  server_.Reply(kDigests, DigestsReplyOf(right), right);
  EXPECT_EQ(session_->Digests(layers, 1, 4, 1)->size_bytes(), bytes);
  EXPECT_EQ(LastRequest<v1::DigestsRequest>().sequence(), 1u);
  server_.Reply(kDigests, v1::DigestsReply(), RandomPayload(bytes - 4, 1));
  EXPECT_TRUE(IsDataLoss(session_->Digests(layers, 1, 4).status()));
  EXPECT_TRUE(IsInvalidArgument(session_->Digests(layers, 4, 4).status()));
  EXPECT_TRUE(IsInvalidArgument(session_->Digests({}, 0, 4).status()));
  EXPECT_TRUE(IsInvalidArgument(session_->Digests(layers, 0, 4, 2).status()));
  EXPECT_TRUE(IsInvalidArgument(session_->Digests(layers, 0, 4, 0, 1).status()));
}

TEST_F(SessionTest, DigestsOfEveryKindHaveTheSizeOfTheKind) {
  const std::vector<uint32_t> layers = {0, 1};
  for (const DigestKind kind : kDigestKinds) {
    const auto elements = static_cast<uint64_t>(kernels::DigestElements(kind, 8));
    const Payload sent = RandomPayload(2 * 3 * 2 * elements * 4, 1);
    server_.Reply(kDigests, DigestsReplyOf(sent), sent);
    const auto digests = session_->Digests(layers, 1, 4, 0, 0, kind);
    EXPECT_TRUE(digests.ok()) << digests.status();
    EXPECT_EQ(LastRequest<v1::DigestsRequest>().kind(), static_cast<int>(kind));
  }
  EXPECT_TRUE(IsInvalidArgument(
      session_->Digests(layers, 1, 4, 0, 0, static_cast<DigestKind>(8)).status()));
}

TEST_F(SessionTest, ScoresOfPagesAreAskedForInOneRequestAndMustBeAsMany) {
  const ContentScoring wanted{.layers = {1, 0},
                              .candidates = {{.first_page = 1, .end_page = 4}},
                              .queries = std::vector<float>(size_t{2} * 2 * 8, 0.5f)};
  v1::ScorePagesReply reply;
  for (int i = 0; i < 6; ++i) reply.add_scores(static_cast<float>(i));
  server_.Reply(kScorePages, reply);
  const auto scores = session_->ScorePages(wanted);
  ASSERT_TRUE(scores.ok()) << scores.status();
  EXPECT_EQ(*scores, (std::vector<float>{0, 1, 2, 3, 4, 5}));
  const auto request = LastRequest<v1::ScorePagesRequest>();
  EXPECT_EQ(request.layers_size(), 2);
  EXPECT_EQ(request.candidates(0).first_page(), 1u);
  EXPECT_EQ(request.queries().size(), wanted.queries.size() * sizeof(float));
  reply.add_scores(6);
  server_.Reply(kScorePages, reply);
  EXPECT_TRUE(IsDataLoss(session_->ScorePages(wanted).status()));
  server_.Fail(kScorePages, Status(StatusCode::kUnimplemented, "no method"));
  EXPECT_EQ(session_->ScorePages(wanted).status().code(), StatusCode::kUnimplemented);
  const auto refused = [&](auto change) {
    ContentScoring bad = wanted;
    change(&bad);
    return IsInvalidArgument(session_->ScorePages(bad).status());
  };
  EXPECT_TRUE(refused([](ContentScoring* bad) { bad->queries.pop_back(); }));
  EXPECT_TRUE(refused([](ContentScoring* bad) { bad->sequence = 2; }));
  EXPECT_TRUE(refused([](ContentScoring* bad) { bad->candidates[0].member = 1; }));
  EXPECT_TRUE(refused([](ContentScoring* bad) { bad->candidates[0].end_page = 0; }));
}

TEST_F(SessionTest, OpeningAsksForDigestsToBeHeld) {
  const auto asked = [&](const std::optional<HeldDigests>& held) {
    server_.Reply(kSessionOpen, OpenReply(18, 1));
    SessionOptions options = {.spec = spec_, .slots_per_head = 2};
    options.hold_digests = held;
    const size_t at = server_.calls().size();
    EXPECT_TRUE(client_->OpenSession(KeyOf(3), options).ok());
    return server_.RequestOf<v1::OpenSessionRequest>(at);
  };
  EXPECT_FALSE(asked(std::nullopt).has_hold_digests());
  const v1::OpenSessionRequest all = asked(HeldDigests{});
  EXPECT_EQ(all.hold_digests().kind(), v1::DIGEST_KIND_MIN_MAX);
  EXPECT_EQ(all.hold_digests().layers_size(), 0);
  const v1::OpenSessionRequest one = asked(HeldDigests{DigestKind::kDisc, {1}});
  EXPECT_EQ(one.hold_digests().kind(), v1::DIGEST_KIND_DISC);
  ASSERT_EQ(one.hold_digests().layers_size(), 1);
  EXPECT_EQ(one.hold_digests().layers(0), 1u);
}

class ValuesSessionTest : public SessionTest {
 protected:
  void SetUp() override {
    SessionTest::SetUp();
    server_.Reply(kSessionOpen, OpenReply(18, 1));
    auto session = client_->OpenSession(
        KeyOf(3), {.spec = spec_, .slots_per_head = kSlots, .part = UnitPart::kValues});
    ASSERT_TRUE(session.ok()) << session.status();
    asked_ = LastRequest<v1::OpenSessionRequest>();
    session_ = *std::move(session);
    half_.page_tokens /= 2;
  }
  /// A step that brings a unit of `spec` for page 6 in slot 1 of head 0 of layer 1. Only `bytes` of
  /// it arrive.
  static testing::ScriptedCall::Step Brings(const KvSpec& spec, uint64_t bytes) {
    return [spec, bytes](const testing::ScriptedCall& call) {
      v1::RecallReply reply;
      reply.set_exchange(call.request.exchange());
      reply.set_epoch(call.request.epoch());
      Payload payload;
      testing::AddLane(spec, {0, 1, {{0, 1, 1, 6}}}, &reply, &payload);
      Payload came;
      came.Append(Slice{payload.slices()[0].bytes.first(bytes), payload.slices()[0].owner});
      return CallMessage{reply.SerializeAsString(), std::move(came)};
    };
  }

  v1::OpenSessionRequest asked_;
  KvSpec half_ = spec_;  ///< Whose units have half the bytes.
};

TEST_F(ValuesSessionTest, OpeningAsksForValuesAndOtherwiseForNothing) {
  EXPECT_EQ(asked_.unit_part(), v1::UNIT_PART_VALUES);
  EXPECT_EQ(session_->unit_bytes(), UnitBytes(spec_) / 2);
  server_.Reply(kSessionOpen, OpenReply(18, 1));
  const auto whole = client_->OpenSession(KeyOf(3), {.spec = spec_, .slots_per_head = kSlots});
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(LastRequest<v1::OpenSessionRequest>().unit_part(), v1::UNIT_PART_UNSPECIFIED);
  EXPECT_EQ((*whole)->unit_bytes(), UnitBytes(spec_));
}

TEST_F(ValuesSessionTest, AUnitWithoutValuesIsRefusedBeforeItIsAskedFor) {
  KvSpec mla = spec_;
  mla.attention = AttentionKind::kMla;
  mla.num_kv_heads = 1;
  mla.head_dim = 0;
  mla.latent_dim = 16;
  mla.latent_rope_dim = 8;
  const size_t before = server_.calls().size();
  const auto refused = client_->OpenSession(
      KeyOf(3), {.spec = mla, .slots_per_head = kSlots, .part = UnitPart::kValues});
  EXPECT_TRUE(IsInvalidArgument(refused.status()));
  EXPECT_NE(refused.status().message().find("have no values"), std::string_view::npos)
      << refused.status();
  EXPECT_EQ(server_.calls().size(), before);
}

TEST_F(ValuesSessionTest, APartIsOfHalvesAndVerifiedAsSuch) {
  const LayerWant want = Want(1, 6);
  Expect({Brings(half_, UnitBytes(half_)), End()});
  const auto result = session_->Recall({&want, 1});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(testing::Bytes(result->payload), testing::UnitOfPage(half_, 6));
  Expect({Brings(spec_, UnitBytes(spec_))});
  EXPECT_TRUE(IsDataLoss(session_->Recall({&want, 1}).status())) << "whole units";
}

TEST_F(ValuesSessionTest, BytesThatAreNotThoseOfTheChecksumAreRefused) {
  const LayerWant want = Want(1, 6);
  Expect({Brings(spec_, UnitBytes(half_))});  // With the checksum of the whole unit.
  server_.Reply("quire.v1.Session/Resync", v1::ResyncReply());
  Expect({Fail(DataLoss("it is nowhere else"))});
  EXPECT_TRUE(IsDataLoss(session_->Recall({&want, 1}).status()));
}

TEST_F(ValuesSessionTest, ALandingHasSlotsOfHalves) {
  const auto landing = session_->MakeLanding(1);
  ASSERT_TRUE(landing.ok()) << landing.status();
  EXPECT_EQ((*landing)->bytes().size(), 2 * 2 * kSlots * UnitBytes(half_));
}

TEST_F(SessionTest, ClosingASessionThatIsGoneIsFineAndUseAfterIsNot) {
  server_.Fail(kClose, NotFound("no session 77"));
  EXPECT_TRUE(session_->Close().ok());
  EXPECT_TRUE(IsFailedPrecondition(session_->Close()));
  const LayerWant want = Want(0, 1);
  EXPECT_TRUE(IsFailedPrecondition(session_->Recall({&want, 1}).status()));
  const size_t before = server_.calls().size();
  session_.reset();
  EXPECT_EQ(server_.calls().size(), before);
}

TEST_F(SessionTest, ClosingTakesTheKeysOfItsLandingsBack) {
  const auto first = session_->MakeLanding(1), second = session_->MakeLanding(1);
  ASSERT_TRUE(first.ok() && second.ok()) << first.status() << second.status();
  EXPECT_TRUE((*first)->direct());
  EXPECT_EQ(data_->landings.use_count(), 3);
  server_.Reply(kClose, v1::CloseSessionReply());
  EXPECT_EQ(session_->Close(), OkStatus());
  EXPECT_EQ(data_->landings.use_count(), 1) << "nothing is written there any more";
  EXPECT_FALSE((*first)->direct());
  EXPECT_EQ((*second)->bytes().size(), 2 * 2 * kSlots * UnitBytes(spec_)) << "the memory stays";
}

TEST_F(SessionTest, TheDestructorClosesAndGivesUpWithinASecond) {
  for (int i = 0; i < 20; ++i) server_.Fail(kClose, Unavailable("down"));
  const TimePoint start = clock_.Now();
  session_.reset();
  EXPECT_EQ(server_.calls().back().method, kClose);
  EXPECT_LE(clock_.Now() - start, std::chrono::seconds(1));
}

TEST_F(SessionTest, OpenRefusesImpossibleOptionsAndLyingReplies) {
  const size_t before = server_.calls().size();
  const auto refused = [&](SessionOptions options) {
    return IsInvalidArgument(client_->OpenSession(KeyOf(3), options).status());
  };
  const SessionOptions good = {.spec = spec_, .slots_per_head = 2};
  EXPECT_TRUE(refused({.spec = {}, .slots_per_head = 2}));
  EXPECT_TRUE(refused({.spec = spec_, .slots_per_head = 0}));
  EXPECT_TRUE(refused({.spec = spec_, .slots_per_head = 70000}));
  EXPECT_TRUE(refused({.spec = spec_, .slots_per_head = 2, .managed_layers = {2}}));
  EXPECT_TRUE(refused({.spec = spec_, .slots_per_head = 2, .managed_layers = {1, 1}}));
  const auto refused_hold = [&](const HeldDigests& held) {
    SessionOptions options = good;
    options.managed_layers = {1};
    options.hold_digests = held;
    return refused(options);
  };
  EXPECT_TRUE(refused_hold({DigestKind::kMean, {0}}));
  EXPECT_TRUE(refused_hold({DigestKind::kMean, {1, 1}}));
  EXPECT_TRUE(refused_hold({static_cast<DigestKind>(0), {}}));
  const auto refused_sequences = [&](const std::vector<SequenceSpec>& sequences) {
    return IsInvalidArgument(client_->OpenSession(sequences, good).status());
  };
  const SequenceMember member = {.context = KeyOf(3)};
  EXPECT_TRUE(refused_sequences({}));
  EXPECT_TRUE(refused_sequences({SequenceSpec()}));
  EXPECT_TRUE(refused_sequences({{.members = std::vector(65, member)}}));
  EXPECT_TRUE(refused_sequences(std::vector<SequenceSpec>(257, {.members = {member}})));
  EXPECT_EQ(server_.calls().size(), before);

  const auto lied = [&](const v1::OpenSessionReply& reply) {
    server_.Reply(kSessionOpen, reply);
    return IsDataLoss(client_->OpenSession(KeyOf(3), good).status());
  };
  v1::OpenSessionReply other_spec = OpenReply(18, 1);
  v1::OpenedMember& opened = *other_spec.mutable_sequences(0)->mutable_members(0);
  opened.mutable_context()->mutable_spec()->set_model("other");
  EXPECT_TRUE(lied(other_spec));
  v1::OpenSessionReply no_tail = OpenReply(18, 1);
  no_tail.mutable_sequences(0)->mutable_members(0)->clear_tail_tokens();
  EXPECT_TRUE(lied(no_tail));
  EXPECT_TRUE(lied(OpenReply(18, 2)));
  v1::OpenSessionReply no_members = OpenReply(18, 1);
  no_members.mutable_sequences(0)->clear_members();
  EXPECT_TRUE(lied(no_members));
}

}  // namespace
}  // namespace quire
