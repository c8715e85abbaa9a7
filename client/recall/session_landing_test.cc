// SPDX-License-Identifier: Apache-2.0
//
// Recalls whose units the server writes into a landing.
#include <algorithm>
#include <vector>

#include "client/recall/landing_area.h"
#include "client/recall_test_kit.h"
#include "common/base/memory/checksum.h"
#include "tests/kit/same_bytes.h"

namespace quire {
namespace {

class SessionLandingTest : public testing::SessionFixture {
 protected:
  void SetUp() override {
    SessionFixture::SetUp();
    auto landing = session_->MakeLanding(1);
    ASSERT_TRUE(landing.ok()) << landing.status();
    landing_ = *std::move(landing);
  }
  bool IsInLanding(const Slice& slice) const {
    const std::span<const std::byte> all = landing_->bytes();
    return slice.bytes.data() >= all.data() &&
           slice.bytes.data() + slice.bytes.size() <= all.data() + all.size();
  }

  std::unique_ptr<SessionLanding> landing_;
};

TEST_F(SessionLandingTest, TheLayoutIsSequencesLayersHeadsSlots) {
  const uint64_t unit = UnitBytes(spec_);
  landing_ = *session_->MakeLanding(2);
  EXPECT_EQ(landing_->bytes().size(), 2 * 2 * 2 * kSlots * unit);
  const std::byte* const base = landing_->bytes().data();
  EXPECT_EQ(landing_->Unit(0, 0, 0, 1).data(), base + unit);
  EXPECT_EQ(landing_->Unit(0, 0, 1, 0).data(), base + kSlots * unit);
  EXPECT_EQ(landing_->Unit(0, 1, 0, 0).data(), base + 2 * kSlots * unit);
  EXPECT_EQ(landing_->Unit(1, 0, 0, 0).data(), base + 4 * kSlots * unit);
}

TEST_F(SessionLandingTest, SizesThatDoNotFitAreRefused) {
  EXPECT_TRUE(IsInvalidArgument(session_->MakeLanding(0).status()));
  EXPECT_TRUE(IsInvalidArgument(session_->MakeLanding(257).status()));
}

TEST_F(SessionLandingTest, ASequenceOutsideTheLandingIsRefused) {
  const LayerWant want = Want(0, 3, 1);
  EXPECT_TRUE(
      IsInvalidArgument(session_->Recall({&want, 1}, {.landing = landing_.get()}).status()));
  EXPECT_EQ(data_->started(), 0u);
}

TEST_F(SessionLandingTest, WhatLandedIsPayloadThatLiesThereUntilItIsApplied) {
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
  EXPECT_TRUE(testing::SameBytes(result->payload.slices()[0].bytes, testing::UnitOfPage(spec_, 6)));
  EXPECT_TRUE(testing::SameBytes(result->payload.slices()[1].bytes, testing::UnitOfPage(spec_, 7)));
  EXPECT_EQ(PageIn(0, 2), -1);
  session_->Applied(*result);
  EXPECT_EQ(PageIn(0, 2), 6);
}

TEST_F(SessionLandingTest, ALaneWhoseRecallWasCancelledKeepsWhatItHolds) {
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

TEST_F(SessionLandingTest, WhileSomethingMayStillLandTheLaneComesInMessagesAndNobodyWaits) {
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
  EXPECT_TRUE(testing::SameBytes(came->payload.Flatten().bytes, testing::UnitOfPage(spec_, 5)));
  const auto lands_again = ExpectPart({{0, 0, {{0, 0, 2, 6, 5}}}});
  const LayerWant last = Want(0, 6);
  ASSERT_TRUE(session_->Recall({&last, 1}, {.landing = landing_.get()}).ok());
  EXPECT_TRUE(lands_again->request.place());
  EXPECT_TRUE(given_up->gone);
}

TEST_F(SessionLandingTest, TheEndOfTheLandingWaitsForWhatMayStillLand) {
  const auto call = Expect({});
  call->late = {Part({{0, 0, {{0, 0, 1, 4}}}})};
  (*session_->Start({Want(0, 4)}, {.landing = landing_.get()}))->Cancel();
  EXPECT_FALSE(call->gone);
  landing_.reset();
  EXPECT_TRUE(call->gone);
  EXPECT_EQ(data_->landings.use_count(), 1);
}

TEST_F(SessionLandingTest, UnitsAreVerifiedWhereTheCallerDoesNot) {
  const auto damaged = [this](const testing::ScriptedCall& call) {
    auto part = Part({{0, 0, {{0, 0, 1, 4}}}})(call);
    landing_->Unit(0, 0, 0, 0)[7] ^= std::byte{1};
    return part;
  };
  Expect({damaged, End()});
  Expect({damaged});
  server_.Reply("quire.v1.Session/Resync", v1::ResyncReply());
  Expect({Fail(DataLoss("it is nowhere else"))});
  const LayerWant want = Want(0, 4);
  const auto unseen = session_->Recall({&want, 1}, {.landing = landing_.get(), .verify = false});
  ASSERT_TRUE(unseen.ok()) << unseen.status();
  EXPECT_EQ(unseen->checksums[0], Crc32c(testing::UnitOfPage(spec_, 4)));
  const Status seen = session_->Recall({&want, 1}, {.landing = landing_.get()}).status();
  EXPECT_TRUE(IsDataLoss(seen)) << seen;
}

TEST_F(SessionLandingTest, UnitsThatLandedElsewhereAreRefused) {
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

TEST_F(SessionLandingTest, UnitsThatTheCallerHoldsDoNotLand) {
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
  EXPECT_TRUE(testing::SameBytes(result->payload.slices()[0].bytes, testing::UnitOfPage(spec_, 6)));
}

TEST_F(SessionLandingTest, OverATransportThatDoesNotWriteThereUnitsComeAsEver) {
  data_->direct_landing = false;
  EXPECT_FALSE(session_->LandsDirectly());
  landing_ = *session_->MakeLanding();
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

TEST_F(SessionLandingTest, UnitsThatComeAsPayloadAllTheSameStayThere) {
  const auto as_payload = [part = Part({{0, 0, {{0, 0, 1, 4}}}})](testing::ScriptedCall call) {
    call.options.landing = nullptr;
    return part(call);
  };
  Expect({as_payload, End()});
  const LayerWant want = Want(0, 4);
  const auto result = session_->Recall({&want, 1}, {.landing = landing_.get()});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->landed_bytes, 0u);
  EXPECT_EQ(testing::Bytes(result->payload), testing::UnitOfPage(spec_, 4));
}

TEST_F(SessionLandingTest, WhoVerifiesByHimselfIsGivenTheChecksums) {
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

}  // namespace
}  // namespace quire
