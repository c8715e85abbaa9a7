// SPDX-License-Identifier: Apache-2.0
//
// Recalls whose units land in their slots, and what is known of a lane whose recall went wrong.
#include "client/session_landing.h"

#include <algorithm>
#include <vector>

#include "client/recall_test_kit.h"
#include "common/base/checksum.h"
#include "common/base/retry_hint.h"
#include "tests/kit/guarded_memory.h"

namespace quire {
namespace {

using namespace internal;

/// The same bytes in slices that are no units, as received buffers may cut them.
Payload CutUp(const Payload& payload) {
  const Slice whole = payload.Flatten();
  Payload pieces;
  for (size_t at = 0; at < whole.bytes.size();) {
    const size_t piece = std::min<size_t>(7 + at / 3, whole.bytes.size() - at);
    pieces.Append(Slice{whole.bytes.subspan(at, piece), whole.owner});
    at += piece;
  }
  return pieces;
}

using std::chrono::milliseconds;

constexpr const char* kResyncMethod = "quire.v1.Session/Resync";

class SessionLandingTest : public testing::SessionFixture {
 protected:
  void SetUp() override {
    SessionFixture::SetUp();
    auto landing = session_->MakeLanding(2);
    ASSERT_TRUE(landing.ok()) << landing.status();
    landing_ = *std::move(landing);
  }
  /// Lands `page` in slot 0 of head 0 of layer 0.
  void Land(uint32_t page, uint32_t generation, int32_t replaced) {
    ExpectPart({{0, 0, {{0, 0, generation, page, replaced}}}});
    const LayerWant want = Want(0, page);
    const auto result = session_->Recall({&want, 1}, {.landing = landing_.get()});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->landed_bytes, UnitBytes(spec_));
    EXPECT_TRUE(result->payload.empty());
  }
  /// The same part with its units as payload instead of landed.
  static testing::ScriptedCall::Step AsPayload(testing::ScriptedCall::Step part) {
    return [part = std::move(part)](const testing::ScriptedCall& call) {
      testing::ScriptedCall unlanded = call;
      unlanded.options.landing = nullptr;
      return part(unlanded);
    };
  }
  /// The lanes of the resync that the next recall starts with, which succeeds.
  v1::ResyncRequest NextResync() {
    server_.Reply(kResyncMethod, v1::ResyncReply());
    ExpectPart({{1, 1, {{0, 0, 1, 8}}}});
    const LayerWant want = Want(1, 8, 1);
    EXPECT_TRUE(session_->Recall({&want, 1}).ok());
    const size_t last = server_.calls().size() - 1;
    EXPECT_EQ(server_.calls()[last].method, kResyncMethod);
    return server_.RequestOf<v1::ResyncRequest>(last);
  }
  bool IsUnit(uint32_t sequence, uint32_t layer, uint32_t head, uint32_t slot,
              uint32_t page) const {
    return std::ranges::equal(landing_->Unit(sequence, layer, head, slot),
                              testing::UnitOfPage(spec_, page));
  }

  std::unique_ptr<SessionLanding> landing_;
};

TEST_F(SessionLandingTest, UnitsLieInTheirSlotsAndAreAppliedWhenTheirPartComes) {
  const auto call = ExpectPart({{1, 1, {{0, 2, 1, 6}, {1, 1, 1, 7}}}});
  const LayerWant want = {.sequence = 1, .layer = 1, .pages = {{6}, {7}}};
  const auto result = session_->Recall({&want, 1}, {.landing = landing_.get()});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(call->request.place());
  EXPECT_EQ(call->options.landing->bytes().data(), landing_->bytes().data());
  EXPECT_TRUE(IsUnit(1, 1, 0, 2, 6));
  EXPECT_TRUE(IsUnit(1, 1, 1, 1, 7));
  EXPECT_EQ(PageIn(1, 2, 1), 6);
  session_->Applied(*result);  // Changes nothing.
  const auto next = ExpectPart({{1, 1, {}}});
  ASSERT_TRUE(session_->Recall({&want, 1}).ok());
  EXPECT_EQ(next->request.wants(0).applied(0), call->request.exchange());
}

TEST_F(SessionLandingTest, TheLayoutIsSequencesLayersHeadsSlots) {
  const uint64_t unit = UnitBytes(spec_);
  EXPECT_EQ(landing_->bytes().size(), 2 * 2 * 2 * kSlots * unit);
  const std::byte* const base = landing_->bytes().data();
  EXPECT_EQ(landing_->Unit(0, 0, 0, 1).data(), base + unit);
  EXPECT_EQ(landing_->Unit(0, 0, 1, 0).data(), base + kSlots * unit);
  EXPECT_EQ(landing_->Unit(0, 1, 0, 0).data(), base + 2 * kSlots * unit);
  EXPECT_EQ(landing_->Unit(1, 0, 0, 0).data(), base + 4 * kSlots * unit);
}

TEST_F(SessionLandingTest, MemoryOfTheCallerIsUsedWhenItIsLargeEnough) {
  std::vector<std::byte> memory(2 * 2 * kSlots * UnitBytes(spec_));
  const auto landing = session_->MakeLanding(1, memory);
  ASSERT_TRUE(landing.ok()) << landing.status();
  EXPECT_EQ((*landing)->bytes().data(), memory.data());
  EXPECT_TRUE(IsInvalidArgument(session_->MakeLanding(2, memory).status()));
  EXPECT_TRUE(IsInvalidArgument(session_->MakeLanding(0).status()));
  EXPECT_TRUE(IsInvalidArgument(session_->MakeLanding(257).status()));
}

TEST_F(SessionLandingTest, AnAccessWithoutMemoryIsRefused) {
  testing::GuardedMemory guarded(1);
  const Status refused = session_->MakeLanding(1, {std::span<std::byte>(), &guarded}).status();
  EXPECT_TRUE(IsInvalidArgument(refused)) << refused;
  EXPECT_NE(Message(refused).find("allocate"), std::string_view::npos) << refused;
  EXPECT_TRUE(IsInvalidArgument(
      session_->MakeLanding(1, {guarded.bytes(), &guarded}).status()));  // Too small.
}

TEST_F(SessionLandingTest, ASequenceOutsideTheLandingIsRefused) {
  const auto one = session_->MakeLanding(1);
  const LayerWant want = Want(0, 3, 1);
  EXPECT_TRUE(IsInvalidArgument(session_->Recall({&want, 1}, {.landing = one->get()}).status()));
  EXPECT_EQ(data_->started(), 0u);
}

TEST_F(SessionLandingTest, ALaneWhoseRecallWasCancelledIsUnknownAndOthersAreNot) {
  Land(3, 1, -1);
  RecallAndApply(1, 5);
  const auto call = Expect({});
  {
    auto recall = session_->Start({Want(0, 4)}, {.landing = landing_.get()});
    ASSERT_TRUE(recall.ok()) << recall.status();
    (*recall)->Cancel();
  }
  EXPECT_TRUE(call->cancelled);
  EXPECT_EQ(PageIn(0, 0), -1);
  const v1::ResyncRequest resync = NextResync();
  ASSERT_EQ(resync.lanes_size(), 2);
  wire::LaneSlots slots;
  ASSERT_TRUE(wire::DecodeLaneSlots(resync.lanes(0).slots(), 2 * kSlots, &slots).ok());
  EXPECT_EQ(slots.pages, std::vector<int32_t>(2 * kSlots, -1));
  EXPECT_EQ(slots.generations[0], 1u);  // Slots do not grow younger.
  ASSERT_TRUE(wire::DecodeLaneSlots(resync.lanes(1).slots(), 2 * kSlots, &slots).ok());
  EXPECT_EQ(slots.pages[0], 5);
}

TEST_F(SessionLandingTest, CancellingWaitsUntilNothingCanLandAnyMore) {
  const auto call = Expect({});
  call->late = {Part({{0, 0, {{0, 0, 1, 4}}}})};
  auto recall = session_->Start({Want(0, 4)}, {.landing = landing_.get()});
  ASSERT_TRUE(recall.ok()) << recall.status();
  (*recall)->Cancel();
  EXPECT_TRUE(call->late.empty());
  EXPECT_TRUE(IsUnit(0, 0, 0, 0, 4));  // It did land, and nobody relies on it.
  EXPECT_EQ(PageIn(0, 0), -1);
  EXPECT_EQ(NextResync().lanes_size(), 0);  // Nothing was ever applied.
}

TEST_F(SessionLandingTest, ARecallWhoseTimeIsUpWaitsUntilNothingCanLandAnyMore) {
  const auto call = Expect({});
  call->late = {Part({{0, 0, {{0, 0, 1, 4}}}}), Fail(DeadlineExceeded("over"))};
  const LayerWant want = Want(0, 4);
  const Status status =
      session_->Recall({&want, 1}, {.timeout = milliseconds(5), .landing = landing_.get()})
          .status();
  EXPECT_TRUE(IsDeadlineExceeded(status)) << status;
  EXPECT_TRUE(call->late.empty());
  EXPECT_TRUE(call->gone);
}

// Promise 2: the server hears what did not match, and the same recall asks once more.
TEST_F(SessionLandingTest, Promise2UnitsThatDoNotMatchMakeTheLaneUnknownAndAreAskedForAgain) {
  Land(3, 1, -1);
  const auto damaged = [this](const testing::ScriptedCall& call) {
    auto part = Part({{0, 0, {{0, 0, 2, 4, 3}}}})(call);
    landing_->Unit(0, 0, 0, 0)[7] ^= std::byte{1};
    return part;
  };
  Expect({damaged});
  server_.Reply(kResyncMethod, v1::ResyncReply());
  const auto again = Expect({Part({{0, 0, {{0, 0, 2, 4}}}}), End()});
  const LayerWant want = Want(0, 4);
  const Status status = session_->Recall({&want, 1}, {.landing = landing_.get()}).status();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(PageIn(0, 0), 4);
  EXPECT_TRUE(IsUnit(0, 0, 0, 0, 4));
  ASSERT_EQ(again->request.mismatched_size(), 1);
  ASSERT_EQ(again->request.mismatched(0).units_size(), 1);
  EXPECT_EQ(again->request.mismatched(0).units(0).page(), 4u);
}

TEST_F(SessionLandingTest, UnitsThatLandedElsewhereMakeTheLaneUnknown) {
  const auto elsewhere = [this](const testing::ScriptedCall& call) {
    auto part = Part({{0, 0, {{0, 0, 1, 4}}}})(call);
    (*part)->places[0] += UnitBytes(spec_);
    return part;
  };
  Expect({elsewhere});
  const LayerWant want = Want(0, 4);
  const Status status = session_->Recall({&want, 1}, {.landing = landing_.get()}).status();
  EXPECT_TRUE(IsDataLoss(status)) << status;
  EXPECT_EQ(PageIn(0, 0), -1);
}

TEST_F(SessionLandingTest, AReplyToAnEarlierRecallThatLandedMakesTheWholeLandingUnknown) {
  Land(3, 1, -1);
  const auto stale = [this](const testing::ScriptedCall& call) {
    testing::ScriptedCall earlier = call;
    earlier.request.set_exchange(call.request.exchange() - 1);
    return Part({{0, 0, {{0, 0, 1, 9}}}})(earlier);
  };
  Expect({stale});
  const LayerWant want = Want(1, 4, 1);
  const Status status = session_->Recall({&want, 1}, {.landing = landing_.get()}).status();
  EXPECT_TRUE(IsDataLoss(status)) << status;
  EXPECT_TRUE(IsUnit(0, 0, 0, 0, 9)) << "it has gone over page 3";
  EXPECT_EQ(PageIn(0, 0), -1);
  EXPECT_EQ(NextResync().lanes_size(), 1);
}

TEST_F(SessionLandingTest, APartThatLandsOnceMoreOverWhatCameSinceMakesItUnknown) {
  const auto first = Part({{0, 0, {{0, 0, 1, 4}}}});
  Expect({first, first});
  auto recall = session_->Start({Want(0, 4), Want(1, 5)}, {.landing = landing_.get()});
  ASSERT_TRUE(recall.ok()) << recall.status();
  ASSERT_TRUE((*recall)->Next().ok());
  Land(6, 2, 4);  // The lane has come, and goes on.
  EXPECT_EQ(PageIn(0, 0), 6);
  const Status status = (*recall)->Next().status();
  EXPECT_TRUE(IsDataLoss(status)) << status;
  EXPECT_TRUE(IsUnit(0, 0, 0, 0, 4)) << "it has gone over page 6";
  EXPECT_EQ(PageIn(0, 0), -1);
}

TEST_F(SessionLandingTest, ChecksumsThatTheCopyToldAreNotComputedAgain) {
  const auto told = [this](uint32_t crc32c) {
    return [this, crc32c](const testing::ScriptedCall& call) {
      auto part = Part({{0, 0, {{0, 0, 1, 4}}}})(call);
      (*part)->landed_crc32c = {crc32c};
      return part;
    };
  };
  const uint32_t right = Crc32c(testing::UnitOfPage(spec_, 4));
  Expect({told(right ^ 1)});
  const auto again = Expect({told(right), End()});
  const LayerWant want = Want(0, 4);
  server_.Reply(kResyncMethod, v1::ResyncReply());
  const auto result = session_->Recall({&want, 1}, {.landing = landing_.get()});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(again->request.mismatched(0).units(0).crc32c(), right ^ 1);
  EXPECT_TRUE(IsUnit(0, 0, 0, 0, 4));
}

TEST_F(SessionLandingTest, UnitsThatComeAsPayloadAllTheSameArePutIntoTheirSlots) {
  Expect({AsPayload(Part({{0, 0, {{0, 0, 1, 4}}}})), End()});
  const LayerWant want = Want(0, 4);
  const auto result = session_->Recall({&want, 1}, {.landing = landing_.get()});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->landed_bytes, UnitBytes(spec_));
  EXPECT_TRUE(IsUnit(0, 0, 0, 0, 4));
}

TEST_F(SessionLandingTest, APartThatLandedHalfIsRefused) {
  const auto half = [this](const testing::ScriptedCall& call) {
    auto part = Part({{0, 0, {{0, 0, 1, 4}}}})(call);
    (*part)->payload.Append(testing::UnitOfPage(spec_, 4));
    return part;
  };
  Expect({half});
  const LayerWant want = Want(0, 4);
  EXPECT_TRUE(IsDataLoss(session_->Recall({&want, 1}, {.landing = landing_.get()}).status()));
}

/// A transport whose server cannot write to the client's memory.
class CopiedLandingTest : public SessionLandingTest {
 protected:
  void SetUp() override {
    SessionFixture::SetUp();
    data_->direct_landing = false;
    auto landing = session_->MakeLanding(1);
    ASSERT_TRUE(landing.ok()) << landing.status();
    landing_ = *std::move(landing);
  }
};

TEST_F(CopiedLandingTest, TheSessionPutsUnitsIntoTheirSlots) {
  EXPECT_FALSE(landing_->direct());
  const auto call = ExpectPart({{0, 0, {{0, 2, 1, 6}, {1, 1, 1, 7}}}});
  const LayerWant want = {.layer = 0, .pages = {{6}, {7}}};
  const auto result = session_->Recall({&want, 1}, {.landing = landing_.get()});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(call->request.place());
  EXPECT_EQ(call->options.landing, nullptr);
  EXPECT_EQ(result->landed_bytes, 2 * UnitBytes(spec_));
  EXPECT_TRUE(result->payload.empty());
  EXPECT_TRUE(IsUnit(0, 0, 0, 2, 6));
  EXPECT_TRUE(IsUnit(0, 0, 1, 1, 7));
  EXPECT_EQ(PageIn(0, 2), 6);
}

TEST_F(CopiedLandingTest, ACancelledRecallLeavesItsLanesAsTheyWere) {
  Land(3, 1, -1);
  Expect({});
  auto recall = session_->Start({Want(0, 4)}, {.landing = landing_.get()});
  ASSERT_TRUE(recall.ok()) << recall.status();
  (*recall)->Cancel();
  EXPECT_EQ(PageIn(0, 0), 3);
  EXPECT_TRUE(IsUnit(0, 0, 0, 0, 3));
}

TEST_F(CopiedLandingTest, ADamagedUnitMakesItsLaneUnknown) {
  Land(3, 1, -1);
  const auto damaged = [this](const testing::ScriptedCall& call) {
    auto part = Part({{0, 0, {{0, 0, 2, 4, 3}}}})(call);
    (*part)->payload = Payload();
    (*part)->payload.Append(testing::UnitOfPage(spec_, 5));
    return part;
  };
  Expect({damaged});
  server_.Reply(kResyncMethod, v1::ResyncReply());
  Expect({Fail(DataLoss("it is nowhere else"))});
  const LayerWant want = Want(0, 4);
  EXPECT_TRUE(IsDataLoss(session_->Recall({&want, 1}, {.landing = landing_.get()}).status()));
  EXPECT_EQ(PageIn(0, 0), -1);
}

TEST_F(CopiedLandingTest, UnitsThatReceivedBuffersCutArePutTogether) {
  const auto cut = [this](const testing::ScriptedCall& call) {
    auto part = Part({{0, 0, {{0, 0, 1, 4}, {0, 1, 1, 5}}}})(call);
    (*part)->payload = CutUp((*part)->payload);
    return part;
  };
  Expect({cut, End()});
  const LayerWant want = {.layer = 0, .pages = {{4, 5}, {}}};
  ASSERT_TRUE(session_->Recall({&want, 1}, {.landing = landing_.get()}).ok());
  EXPECT_TRUE(IsUnit(0, 0, 0, 0, 4));
  EXPECT_TRUE(IsUnit(0, 0, 0, 1, 5));
}

TEST_F(CopiedLandingTest, WhoVerifiesByHimselfIsGivenTheChecksums) {
  const auto damaged = [this](const testing::ScriptedCall& call) {
    auto part = Part({{0, 0, {{0, 0, 1, 4}}}})(call);
    (*part)->payload = Payload();
    (*part)->payload.Append(testing::UnitOfPage(spec_, 5));
    return part;
  };
  Expect({damaged, End()});
  const LayerWant want = Want(0, 4);
  const auto result = session_->Recall({&want, 1}, {.verify = false});
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->checksums.size(), 1u);
  EXPECT_EQ(result->checksums[0], Crc32c(testing::UnitOfPage(spec_, 4)));
  EXPECT_NE(result->checksums[0], Crc32c(result->payload.Flatten().bytes));
}

/// Units that land are payload that the caller takes from there.
class StagingTest : public SessionLandingTest {
 protected:
  void SetUp() override {
    SessionFixture::SetUp();
    auto landing = session_->MakeLanding(1, {}, LandingUse::kStaging);
    ASSERT_TRUE(landing.ok()) << landing.status();
    landing_ = *std::move(landing);
  }
  bool IsInLanding(const Slice& slice) const {
    const std::span<const std::byte> all = landing_->bytes();
    return slice.bytes.data() >= all.data() &&
           slice.bytes.data() + slice.bytes.size() <= all.data() + all.size();
  }
};

TEST_F(StagingTest, WhatLandedIsPayloadThatLiesThereUntilItIsApplied) {
  EXPECT_TRUE(session_->LandsDirectly());
  const auto call = ExpectPart({{0, 0, {{0, 2, 1, 6}, {1, 1, 1, 7}}}});
  const LayerWant want = {.layer = 0, .pages = {{6}, {7}}};
  const auto result = session_->Recall({&want, 1}, {.landing = landing_.get()});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(call->request.place());
  EXPECT_EQ(result->landed_bytes, 2 * UnitBytes(spec_));
  ASSERT_EQ(result->payload.slices().size(), 2u);
  for (const Slice& slice : result->payload.slices()) {
    EXPECT_TRUE(IsInLanding(slice));
    EXPECT_NE(slice.owner, nullptr);
  }
  EXPECT_TRUE(std::ranges::equal(result->payload.slices()[0].bytes, testing::UnitOfPage(spec_, 6)));
  EXPECT_TRUE(std::ranges::equal(result->payload.slices()[1].bytes, testing::UnitOfPage(spec_, 7)));
  EXPECT_EQ(PageIn(0, 2), -1);
  session_->Applied(*result);
  EXPECT_EQ(PageIn(0, 2), 6);
}

TEST_F(StagingTest, ALaneWhoseRecallWasCancelledKeepsWhatItHolds) {
  RecallAndApply(0, 3);
  const auto call = Expect({});
  call->late = {Part({{0, 0, {{0, 0, 2, 4, 3}}}})};
  {
    auto recall = session_->Start({Want(0, 4)}, {.landing = landing_.get()});
    ASSERT_TRUE(recall.ok()) << recall.status();
  }
  EXPECT_TRUE(call->cancelled);
  EXPECT_EQ(PageIn(0, 0), 3);
  ExpectPart({{0, 0, {{0, 0, 2, 4, 3}}}});  // Without a resync.
  const LayerWant want = Want(0, 4);
  EXPECT_TRUE(session_->Recall({&want, 1}, {.landing = landing_.get()}).ok());
}

TEST_F(StagingTest, WhileSomethingMayStillLandTheLaneComesInMessagesAndNobodyWaits) {
  const auto given_up = Expect({});
  given_up->late = {Part({{0, 0, {{0, 0, 1, 4}}}})};
  (*session_->Start({Want(0, 4)}, {.landing = landing_.get()}))->Cancel();
  EXPECT_FALSE(given_up->late.empty());
  const auto in_messages = ExpectPart({{0, 0, {{0, 0, 1, 5}}}});
  const LayerWant newer = Want(0, 5);
  const auto came = session_->Recall({&newer, 1}, {.landing = landing_.get()});
  ASSERT_TRUE(came.ok()) << came.status();
  EXPECT_FALSE(in_messages->request.place());
  EXPECT_EQ(came->landed_bytes, 0u);
  session_->Applied(*came);
  const auto other_lane = ExpectPart({{0, 1, {{0, 0, 1, 5}}}});
  const LayerWant other = Want(1, 5);
  ASSERT_TRUE(session_->Recall({&other, 1}, {.landing = landing_.get()}).ok());
  EXPECT_TRUE(other_lane->request.place());
  // It comes, where nobody reads.
  ASSERT_TRUE(given_up->late.front()(*given_up).ok());
  given_up->late.clear();
  EXPECT_TRUE(std::ranges::equal(came->payload.Flatten().bytes, testing::UnitOfPage(spec_, 5)));
  const auto lands_again = ExpectPart({{0, 0, {{0, 0, 2, 6, 5}}}});
  const LayerWant last = Want(0, 6);
  ASSERT_TRUE(session_->Recall({&last, 1}, {.landing = landing_.get()}).ok());
  EXPECT_TRUE(lands_again->request.place());
  EXPECT_TRUE(given_up->gone);
}

TEST_F(StagingTest, TheEndOfTheLandingWaitsForWhatMayStillLand) {
  const auto call = Expect({});
  call->late = {Part({{0, 0, {{0, 0, 1, 4}}}})};
  (*session_->Start({Want(0, 4)}, {.landing = landing_.get()}))->Cancel();
  EXPECT_FALSE(call->gone);
  landing_.reset();
  EXPECT_TRUE(call->gone);
  EXPECT_EQ(data_->landings.use_count(), 1);
}

TEST_F(StagingTest, UnitsAreVerifiedWhereTheCallerDoesNot) {
  const auto damaged = [this](const testing::ScriptedCall& call) {
    auto part = Part({{0, 0, {{0, 0, 1, 4}}}})(call);
    landing_->Unit(0, 0, 0, 0)[7] ^= std::byte{1};
    return part;
  };
  Expect({damaged, End()});
  Expect({damaged});
  server_.Reply(kResyncMethod, v1::ResyncReply());
  Expect({Fail(DataLoss("it is nowhere else"))});
  const LayerWant want = Want(0, 4);
  const auto unseen = session_->Recall({&want, 1}, {.landing = landing_.get(), .verify = false});
  ASSERT_TRUE(unseen.ok()) << unseen.status();
  EXPECT_EQ(unseen->checksums[0], Crc32c(testing::UnitOfPage(spec_, 4)));
  const Status seen = session_->Recall({&want, 1}, {.landing = landing_.get()}).status();
  EXPECT_TRUE(IsDataLoss(seen)) << seen;
}

TEST_F(StagingTest, UnitsThatLandedElsewhereAreRefused) {
  const auto elsewhere = [this](const testing::ScriptedCall& call) {
    auto part = Part({{0, 0, {{0, 0, 1, 4}}}})(call);
    (*part)->places[0] += UnitBytes(spec_);
    return part;
  };
  Expect({elsewhere});
  const LayerWant want = Want(0, 4);
  const Status status = session_->Recall({&want, 1}, {.landing = landing_.get()}).status();
  EXPECT_TRUE(IsDataLoss(status)) << status;
}

TEST_F(StagingTest, UnitsThatTheCallerHoldsDoNotLand) {
  const auto without_the_second = [this](const testing::ScriptedCall& call) {
    auto whole = Part({{0, 0, {{0, 0, 1, 6}, {0, 1, 1, 8}}}})(call);
    (*whole)->landed_bytes = UnitBytes(spec_);
    (*whole)->places.pop_back();
    return whole;
  };
  Expect({without_the_second, End()});
  const LayerWant want = {.layer = 0, .pages = {{6, 8}, {}}, .held = {{8}, {}}};
  const auto result = session_->Recall({&want, 1}, {.landing = landing_.get(), .verify = false});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->held, std::vector<size_t>{1});
  ASSERT_EQ(result->payload.slices().size(), 1u);
  EXPECT_TRUE(std::ranges::equal(result->payload.slices()[0].bytes, testing::UnitOfPage(spec_, 6)));
}

TEST_F(StagingTest, OverATransportThatDoesNotWriteThereUnitsComeAsEver) {
  data_->direct_landing = false;
  EXPECT_FALSE(session_->LandsDirectly());
  landing_ = *session_->MakeLanding(1, {}, LandingUse::kStaging);
  EXPECT_FALSE(landing_->direct());
  const auto call = ExpectPart({{0, 0, {{0, 2, 1, 6}}}});
  const LayerWant want = Want(0, 6);
  const auto result = session_->Recall({&want, 1}, {.landing = landing_.get()});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(call->request.place());
  EXPECT_EQ(result->landed_bytes, 0u);
  ASSERT_EQ(result->payload.slices().size(), 1u);
  EXPECT_FALSE(IsInLanding(result->payload.slices()[0]));
}

TEST_F(StagingTest, ADevicesMemoryIsRefused) {
  testing::GuardedMemory guarded(uint64_t{1} << 20);
  const Status refused =
      session_->MakeLanding(1, {guarded.bytes(), &guarded}, LandingUse::kStaging).status();
  EXPECT_TRUE(IsInvalidArgument(refused)) << refused;
}

/// A landing in memory that only its access reaches: whoever else touches it ends the test.
class GuardedLandingTest : public SessionLandingTest {
 protected:
  void SetUp() override {
    SessionFixture::SetUp();
    memory_.Fill(std::byte{0});
  }
  void Make() {
    auto landing = session_->MakeLanding(1, {memory_.bytes(), &memory_});
    ASSERT_TRUE(landing.ok()) << landing.status();
    landing_ = *std::move(landing);
  }
  void MakeOverATransportThatCannotWrite() {
    data_->direct_landing = false;
    Make();
    ASSERT_FALSE(landing_->direct());
  }
  bool Holds(uint32_t layer, uint32_t head, uint32_t slot, uint32_t page) {
    const std::vector<std::byte> all = memory_.Read();
    const auto unit = landing_->Unit(0, layer, head, slot);
    return std::ranges::equal(
        std::span(all).subspan(static_cast<size_t>(unit.data() - memory_.bytes().data()),
                               unit.size()),
        testing::UnitOfPage(spec_, page));
  }
  /// The part, put into its slots by the server's device; nobody tells checksums.
  testing::ScriptedCall::Step Put(std::vector<testing::LaneRows> lanes, std::byte flip = {}) {
    return [this, lanes, flip](const testing::ScriptedCall& call) {
      auto part = Part(lanes)(call);
      const std::vector<std::byte> broken = {testing::UnitOfPage(spec_, lanes[0].rows[0].page)[0] ^
                                             flip};
      memory_.Write((*part)->places[0], broken);
      return part;
    };
  }
  /// Two units, of layer 0.
  std::vector<testing::LaneRows> TwoUnits() const { return {{0, 0, {{0, 2, 1, 6}, {1, 1, 1, 7}}}}; }
  const LayerWant want_ = {.layer = 0, .pages = {{6}, {7}}};
  testing::GuardedMemory memory_{2 * 2 * kSlots * UnitBytes(spec_)};
};

TEST_F(GuardedLandingTest, WhatADeviceWroteIsCheckedByTheAccess) {
  Make();
  EXPECT_TRUE(landing_->direct());
  EXPECT_TRUE(landing_->why_not_direct().ok());
  const auto call = Expect({Put(TwoUnits()), End()});
  const auto result = session_->Recall({&want_, 1}, {.landing = landing_.get()});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(call->options.landing->memory().access, &memory_);
  EXPECT_EQ(memory_.bytes_out(), 2 * UnitBytes(spec_));
  EXPECT_TRUE(Holds(0, 0, 2, 6));
  EXPECT_TRUE(Holds(0, 1, 1, 7));
  EXPECT_EQ(PageIn(0, 2), 6);
}

TEST_F(GuardedLandingTest, ADamagedUnitThatADeviceWroteMakesItsLaneUnknown) {
  Make();
  Expect({Put(TwoUnits(), std::byte{1})});
  server_.Reply(kResyncMethod, v1::ResyncReply());
  Expect({Fail(DataLoss("it is nowhere else"))});
  const Status status = session_->Recall({&want_, 1}, {.landing = landing_.get()}).status();
  EXPECT_TRUE(IsDataLoss(status)) << status;
  EXPECT_EQ(PageIn(0, 2), -1);
}

TEST_F(GuardedLandingTest, ChecksumsThatTheCopyToldAreNotReadBack) {
  Make();
  const auto told = [this](const testing::ScriptedCall& call) {
    auto part = Put(TwoUnits())(call);
    (*part)->landed_crc32c = {Crc32c(testing::UnitOfPage(spec_, 6)),
                              Crc32c(testing::UnitOfPage(spec_, 7))};
    return part;
  };
  Expect({told, End()});
  ASSERT_TRUE(session_->Recall({&want_, 1}, {.landing = landing_.get()}).ok());
  EXPECT_EQ(memory_.bytes_out(), 0u);
}

TEST_F(GuardedLandingTest, PayloadIsPutIntoItsSlotsByTheAccess) {
  MakeOverATransportThatCannotWrite();
  Expect({Part(TwoUnits()), End()});
  const auto result = session_->Recall({&want_, 1}, {.landing = landing_.get()});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->landed_bytes, 2 * UnitBytes(spec_));
  EXPECT_TRUE(result->payload.empty());
  EXPECT_TRUE(Holds(0, 0, 2, 6));
  EXPECT_TRUE(Holds(0, 1, 1, 7));
  EXPECT_EQ(memory_.copies_in(), 2u);
}

TEST_F(GuardedLandingTest, UnitsThatReceivedBuffersCutArePutTogether) {
  MakeOverATransportThatCannotWrite();
  const auto cut = [this](const testing::ScriptedCall& call) {
    auto part = Part(TwoUnits())(call);
    (*part)->payload = CutUp((*part)->payload);
    return part;
  };
  Expect({cut, End()});
  ASSERT_TRUE(session_->Recall({&want_, 1}, {.landing = landing_.get()}).ok());
  EXPECT_TRUE(Holds(0, 0, 2, 6));
  EXPECT_TRUE(Holds(0, 1, 1, 7));
}

TEST_F(GuardedLandingTest, DamagedPayloadReachesNoSlot) {
  MakeOverATransportThatCannotWrite();
  const std::vector<std::byte> before = memory_.Read();
  const auto damaged = [this](const testing::ScriptedCall& call) {
    auto part = Part(TwoUnits())(call);
    (*part)->payload = Payload();
    (*part)->payload.Append(testing::UnitOfPage(spec_, 6));
    (*part)->payload.Append(testing::UnitOfPage(spec_, 8));
    return part;
  };
  Expect({damaged});
  server_.Reply(kResyncMethod, v1::ResyncReply());
  Expect({Fail(DataLoss("it is nowhere else"))});
  EXPECT_TRUE(IsDataLoss(session_->Recall({&want_, 1}, {.landing = landing_.get()}).status()));
  EXPECT_EQ(memory_.Read(), before);
  EXPECT_EQ(PageIn(0, 2), -1);
}

TEST_F(GuardedLandingTest, AnAccessThatFailsIsItsErrorAndTheLaneIsUnknown) {
  for (const bool direct : {true, false}) {
    data_->direct_landing = direct;
    testing::GuardedMemory broken(memory_.bytes().size());
    broken.Fill(std::byte{0});
    broken.Break();
    const auto landing = session_->MakeLanding(1, {broken.bytes(), &broken});
    ASSERT_TRUE(landing.ok()) << landing.status();
    const auto step = [this](const testing::ScriptedCall& call) {
      testing::ScriptedCall unlanded = call;
      unlanded.options.landing = nullptr;
      auto part = Part(TwoUnits())(unlanded);
      if (call.options.landing == nullptr) return part;
      (*part)->landed_bytes = (*part)->payload.size_bytes();
      (*part)->payload = {};
      (*part)->places = PlacesOf(TwoUnits());
      return part;
    };
    if (!direct) server_.Reply(kResyncMethod, v1::ResyncReply());
    Expect({step});
    const Status status = session_->Recall({&want_, 1}, {.landing = landing->get()}).status();
    EXPECT_TRUE(IsInternal(status)) << status;
    EXPECT_NE(Message(status).find("guarded memory is broken"), std::string_view::npos) << status;
    EXPECT_EQ(PageIn(0, 2), -1);
  }
}

TEST_F(GuardedLandingTest, WhereNoDeviceWritesThatTypeUnitsComeAsPayload) {
  data_->add_landing = Unimplemented("supports host memory");
  Make();
  EXPECT_FALSE(landing_->direct());
  EXPECT_EQ(landing_->why_not_direct(), Unimplemented("supports host memory"));
  const auto call = Expect({Part(TwoUnits()), End()});
  ASSERT_TRUE(session_->Recall({&want_, 1}, {.landing = landing_.get()}).ok());
  EXPECT_FALSE(call->request.place());
  EXPECT_EQ(call->options.landing, nullptr);
  EXPECT_TRUE(Holds(0, 0, 2, 6));
  EXPECT_TRUE(IsUnimplemented(session_->MakeLanding(1).status())) << "of the host's memory";
  data_->add_landing = Unavailable("the connection is over");
  EXPECT_TRUE(IsUnavailable(session_->MakeLanding(1, {memory_.bytes(), &memory_}).status()));
}

TEST_F(SessionLandingTest, ARefusalBeforeAnythingWasDoneLeavesTheLaneKnown) {
  Land(3, 1, -1);
  Expect({Fail(WithRetryAfter(ResourceExhausted("busy"), milliseconds(1)))});
  ExpectPart({{0, 0, {{0, 0, 2, 4, 3}}}});
  const LayerWant want = Want(0, 4);
  ASSERT_TRUE(session_->Recall({&want, 1}, {.landing = landing_.get()}).ok());
  EXPECT_EQ(PageIn(0, 0), 4);
}

TEST_F(SessionLandingTest, AfterALossTheLanesThatCameStayAndTheOthersStartEmpty) {
  Land(3, 1, -1);
  Expect({Part({{0, 1, {{0, 0, 1, 5}}}}), Fail(Unavailable("the peer died"))});
  server_.Reply(kResyncMethod, v1::ResyncReply());
  const auto again = ExpectPart({{0, 0, {{0, 0, 2, 4}}}});  // Into a slot that counts as empty.
  const std::vector<LayerWant> wants = {Want(1, 5), Want(0, 4)};
  const auto result = session_->Recall(wants, {.landing = landing_.get()});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->lanes.size(), 2u);
  EXPECT_EQ(again->request.epoch(), 2u);
  ASSERT_EQ(again->request.wants_size(), 1);
  EXPECT_EQ(PageIn(1, 0), 5);
  EXPECT_EQ(PageIn(0, 0), 4);
  EXPECT_TRUE(IsUnit(0, 0, 0, 0, 4));
}

}  // namespace
}  // namespace quire
