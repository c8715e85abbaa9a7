// SPDX-License-Identifier: Apache-2.0
//
// SharedSessions: who shares a session with whom, and what a session has room for.
#include "gpuworker/engine/batch/shared_sessions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/retry_hint.h"
#include "common/wire/limits.h"
#include "gpuworker/testing/fake_store.h"
#include "gpuworker/testing/held_transport.h"
#include "gpuworker/testing/tiny_spec.h"
#include "quire/layout.h"
#include "tests/kit/fake_clock.h"
#include "transport/local/loopback_transport.h"

namespace quire::worker {
namespace {

using ::testing::ElementsAre;

constexpr uint32_t kPages = 8;

class SharedSessionsTest : public ::testing::Test {
 protected:
  using Seat = std::unique_ptr<SessionSeat>;

  SharedSessionsTest() {
    transport_ = std::make_shared<testing::HeldTransport>(
        std::make_shared<LoopbackTransport>(&store_, LoopbackTransport::Options{.clock = &clock_}),
        &clock_);
    client_ = *Client::Create({.transport = transport_, .clock = &clock_});
    sessions_.emplace(client_.get(), &spec_);
    context_ = client_->OpenContext(spec_, std::nullopt)->id;
    Payload payload;
    payload.Append(std::vector<std::byte>(SegmentBytes(spec_, kPages), std::byte{7}));
    EXPECT_TRUE(client_->AppendPages(context_, 0, std::vector<TokenId>(kPages * 2), payload).ok());
  }

  Seat Take(const LaneShape& shape) {
    auto seat = sessions_->Seat(context_, shape);
    EXPECT_TRUE(seat.ok()) << seat.status();
    return seat.ok() ? *std::move(seat) : nullptr;
  }
  Seat Take(uint32_t slots) { return Take({.slots_per_head = slots, .layers = {0, 1}}); }
  static uint32_t SlotsOf(const Seat& seat) {
    return seat->session().slots_per_head(seat->sequence());
  }
  static uint32_t SessionSlotsOf(const Seat& seat) { return seat->session().slots_per_head(); }
  /// The slots that `seat`'s recall of layer 0 places its units in, which counts as applied.
  static std::vector<uint32_t> Placed(const Seat& seat, ChannelRecall& recall) {
    std::vector<uint32_t> slots;
    for (;;) {
      const auto part = recall.Next();
      EXPECT_TRUE(part.ok()) << part.status();
      if (!part.ok() || !part->has_value()) return slots;
      for (const Placement& placement : (*part)->placements) slots.push_back(placement.slot);
      seat->channel().Applied(**part);
    }
  }

  const KvSpec spec_ = testing::TinySpec();
  quire::testing::FakeClock clock_;
  testing::FakeStore store_;
  std::shared_ptr<testing::HeldTransport> transport_;
  std::unique_ptr<Client> client_;
  std::optional<SharedSessions> sessions_;
  uint64_t context_ = 0;
};

TEST_F(SharedSessionsTest, SequencesOfEveryBudgetShareOneWhereUnitsComeInMessages) {
  const Seat a = Take(3), b = Take(500), c = Take(wire::kMaxSlotsPerHead), d = Take(1);
  EXPECT_EQ(sessions_->num_sessions(), 1u);
  EXPECT_EQ(store_.open_sessions(), 1u);
  EXPECT_EQ(SlotsOf(a), 3u);
  EXPECT_EQ(SlotsOf(b), 500u);
  EXPECT_EQ(SlotsOf(c), wire::kMaxSlotsPerHead);
  EXPECT_EQ(SlotsOf(d), 1u);
}

TEST_F(SharedSessionsTest, OneMessageRecallsForAllOfThemAndEachHasItsOwnSlots) {
  const Seat narrow = Take(2), wide = Take(5);
  const auto step = [&](const PageLists& of_narrow, const PageLists& of_wide) {
    const auto a = narrow->channel().Start({.pages = of_narrow}, {});
    const auto b = wide->channel().Start({.pages = of_wide}, {});
    ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
    sessions_->Send();
    EXPECT_THAT(Placed(narrow, **a), ElementsAre(0, 1, 0));
    EXPECT_THAT(Placed(wide, **b), ::testing::SizeIs(2));
  };
  step({{0, 1}, {0}}, {{0, 1}, {}});
  step({{2, 3}, {2}}, {{0, 1, 2, 3}, {}});
  EXPECT_EQ(sessions_->messages(), 2u);
  EXPECT_EQ(sessions_->lanes(), 4u);
  EXPECT_THAT(narrow->session().ResidentPages(narrow->sequence(), 0), ElementsAre(2, 3, 2, -1));
  EXPECT_THAT(wide->session().ResidentPages(wide->sequence(), 0),
              ElementsAre(0, 1, 2, 3, -1, -1, -1, -1, -1, -1));
}

TEST_F(SharedSessionsTest, InAStagingAreaThoseShareWhoseSlotsRoundToTheSame) {
  transport_->lands_directly = true;
  const Seat five = Take(5), eight = Take(8), six = Take(6);
  EXPECT_EQ(sessions_->num_sessions(), 1u);
  EXPECT_EQ(SessionSlotsOf(five), 8u);
  EXPECT_EQ(SlotsOf(five), 5u);
  EXPECT_EQ(SlotsOf(eight), 8u);
  EXPECT_EQ(&eight->session(), &six->session());
  const Seat four = Take(4), nine = Take(9), one = Take(1);
  EXPECT_EQ(sessions_->num_sessions(), 4u);
  EXPECT_EQ(SessionSlotsOf(four), 4u);
  EXPECT_EQ(SessionSlotsOf(nine), 16u);
  EXPECT_EQ(SessionSlotsOf(one), 1u);
  const auto recall = six->channel().Start({.pages = {{1, 2}, {3}}}, {});
  ASSERT_TRUE(recall.ok()) << recall.status();
  sessions_->Send();
  EXPECT_THAT(Placed(six, **recall), ElementsAre(0, 1, 0));
}

TEST_F(SharedSessionsTest, WhoComesWhenTheServerHasBegunToWriteByItselfHasAnotherSession) {
  const Seat before = Take(3);
  transport_->lands_directly = true;
  const Seat after = Take(3);
  EXPECT_EQ(SessionSlotsOf(before), wire::kMaxSlotsPerHead);
  EXPECT_EQ(SessionSlotsOf(after), 4u);
  transport_->lands_directly = false;
  const Seat again = Take(3);
  EXPECT_EQ(&again->session(), &before->session());
}

TEST_F(SharedSessionsTest, LanesOfOtherKindsAreOfOtherSessions) {
  const LaneShape shape = {.slots_per_head = 3, .layers = {0, 1}};
  LaneShape layers = shape, digests = shape, part = shape;
  layers.layers = {1};
  digests.held_digests = kernels::DigestKind::kMean;
  part.part = UnitPart::kValues;
  const Seat a = Take(shape), b = Take(layers), c = Take(digests), d = Take(part), e = Take(shape);
  EXPECT_EQ(sessions_->num_sessions(), 4u);
  EXPECT_EQ(&a->session(), &e->session());
}

TEST_F(SharedSessionsTest, ASessionThatIsFullIsPassedOver) {
  const Seat first = Take(3);
  store_.FailOnce("Session/AddSequence", 0, ResourceExhausted("the resident maps are too large"));
  const Seat second = Take(70);
  EXPECT_EQ(sessions_->num_sessions(), 2u);
  EXPECT_NE(&first->session(), &second->session());
  const Seat third = Take(2);  // There is room for it again.
  EXPECT_EQ(&first->session(), &third->session());
}

TEST_F(SharedSessionsTest, AServerThatIsBusyIsAskedAgainForTheSameSession) {
  const Seat first = Take(3);
  store_.FailOnce("Session/AddSequence", 0,
                  WithRetryAfter(ResourceExhausted("busy"), std::chrono::milliseconds(5)));
  const Seat second = Take(3);
  EXPECT_EQ(sessions_->num_sessions(), 1u);
}

TEST_F(SharedSessionsTest, MoreSlotsThanThereCanBeAreRefused) {
  for (const bool lands : {false, true}) {
    transport_->lands_directly = lands;
    const Status refused =
        sessions_->Seat(context_, {.slots_per_head = ~0u, .layers = {0, 1}}).status();
    EXPECT_TRUE(IsInvalidArgument(refused)) << refused;
    EXPECT_EQ(sessions_->num_sessions(), 0u);
  }
}

}  // namespace
}  // namespace quire::worker
