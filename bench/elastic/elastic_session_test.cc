// SPDX-License-Identifier: Apache-2.0
//
// A session over a real server with lost and misplaced replies: after every step the slots hold
// exactly the selection (promise 4).
#include "bench/elastic/elastic_session.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "bench/kit/gqa_spec.h"
#include "bench/stream/lossy_transport.h"
#include "bench/stream/stream_context.h"
#include "client/data/data_transport.h"
#include "kvserver/embedded/embedded_store.h"
#include "quire/clock.h"
#include "tests/integration/direct_ucx.h"
#include "tests/kit/fake_clock.h"
#include "tests/kit/temp_dir.h"
#include "transport/ucx/ucx.h"

namespace quire::bench {
namespace {

constexpr int kSteps = 300;
constexpr double kFaultRate = 0.05;
constexpr PageBudget kBudget = {.sink_pages = 2, .window_pages = 2, .selected_pages = 8};

KvSpec Spec() {
  return GqaSpec("elastic-test", {.layers = 3, .query_heads = 8, .kv_heads = 2, .head_dim = 64});
}

class ElasticSessionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto context = StreamContext::Make(Spec(), {.pages = 128, .topics = 8});
    ASSERT_TRUE(context.ok()) << context.status();
    context_ = std::make_unique<StreamContext>(*std::move(context));
    auto store =
        EmbeddedStore::Open({.data_dir = directory_.path(), .dram_bytes = uint64_t{64} << 20});
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  /// A client that uses `clock_`.
  std::unique_ptr<Client> MakeClient(std::shared_ptr<Transport> transport) {
    auto client = Client::Create({.transport = std::move(transport), .clock = &clock_});
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }
  StatusOr<ElasticSession> Open(Client& client, uint32_t slots_per_head) {
    QUIRE_ASSIGN_OR_RETURN(const SegmentKey tip, PutContext(client, *context_, 1));
    return ElasticSession::Open(client, tip, context_->spec(), slots_per_head);
  }

  enum class Units : uint8_t { kInMessages, kLand };
  /// Checks a session over `transport` with faults after every step.
  void FollowLossy(const std::shared_ptr<Transport>& transport, Clock* clock, int steps,
                   Units units) {
    const auto lossy = std::make_shared<LossyTransport>(
        transport, LossyTransport::Options{.method = "quire.v1.Session/Recall",
                                           .drop_rate = kFaultRate,
                                           .late_rate = kFaultRate,
                                           .stale_rate = kFaultRate,
                                           .duplicate_rate = kFaultRate,
                                           .replay_rate = kFaultRate,
                                           .seed = 5,
                                           .clock = clock});
    auto client =
        Client::Create({.transport = store_->transport(), .data_transport = lossy, .clock = clock});
    ASSERT_TRUE(client.ok()) << client.status();
    SlotCache slots(context_->spec(), kBudget.selected_pages);
    auto session = Open(**client, kBudget.selected_pages);
    ASSERT_TRUE(session.ok()) << session.status();
    if (units == Units::kLand) {
      ASSERT_EQ(session->Land(), OkStatus());
    }
    auto selections = StreamSelections::Make(*context_, {.cosine = 0.9}, kBudget);
    ASSERT_TRUE(selections.ok()) << selections.status();
    for (int step = 0; step < steps; ++step) {
      const auto moved = session->Step(selections->selection(), &slots);
      ASSERT_TRUE(moved.ok()) << "step " << step << ": " << moved.status();
      ASSERT_EQ(slots.Check(selections->selection(), *context_), OkStatus()) << "step " << step;
      ASSERT_TRUE(selections->Step().ok());
    }
    const LossyTransport::Faults faults = lossy->faults();
    for (const uint64_t count :
         {faults.dropped, faults.late, faults.stale, faults.duplicated, faults.replayed}) {
      EXPECT_GE(count, static_cast<uint64_t>(steps) / 100);
    }
    // Late replies are accepted; every other fault cost one recall.
    EXPECT_GE(session->failed_recalls(),
              faults.dropped + faults.stale + faults.duplicated + faults.replayed);
  }

  quire::testing::TempDir directory_;
  quire::testing::FakeClock clock_;
  std::unique_ptr<StreamContext> context_;
  std::unique_ptr<EmbeddedStore> store_;
};

TEST_F(ElasticSessionTest, TheSlotsAreRightAfterEveryStepWhateverHappensToReplies) {
  FollowLossy(store_->transport(), &clock_, kSteps, Units::kInMessages);
}

// The server also writes units of lost replies.
TEST_F(ElasticSessionTest, SlotsAreRightWhereTheServerWritesIntoALanding) {
  if (!UcxAvailable()) GTEST_SKIP() << "built without UCX";
  ASSERT_EQ(store_->Listen({.transports = {"ucx"}, .ucx = testing::DirectUcxOptions()}),
            OkStatus());
  const auto control = ConnectGrpc(store_->address());
  ASSERT_TRUE(control.ok()) << control.status();
  const auto ucx = internal::DataTransport::Open(
      *control, {.transport = "ucx", .control_address = store_->address()}, {},
      {.dialers = testing::DirectUcxDialers()});
  ASSERT_TRUE(ucx.ok()) << ucx.status();
  ASSERT_TRUE((*ucx)->capabilities().direct_landing) << (*ucx)->capabilities().detail;
  FollowLossy(*ucx, &SystemClock(), 200, Units::kLand);
}

TEST_F(ElasticSessionTest, TheCheckNoticesUnitsOfAnEarlierStep) {
  const auto client = MakeClient(store_->transport());
  auto session = Open(*client, 2);
  ASSERT_TRUE(session.ok()) << session.status();
  const StepSelection first(3, {{2, 3}, {4, 5}});
  StepSelection second = first;
  second[1][1] = {4, 6};
  SlotCache slots(context_->spec(), 2);
  ASSERT_TRUE(session->Step(first, &slots).ok());
  EXPECT_EQ(slots.Check(first, *context_), OkStatus());
  EXPECT_TRUE(IsDataLoss(slots.Check(second, *context_)));
  const SlotCache before = slots;
  const auto moved = session->Step(second, &slots);
  ASSERT_TRUE(moved.ok()) << moved.status();
  EXPECT_EQ(moved->units, 1u);
  EXPECT_EQ(slots.Check(second, *context_), OkStatus());
  EXPECT_TRUE(IsDataLoss(before.Check(second, *context_))) << "what a stale reply would leave";
  EXPECT_EQ(session->failed_recalls(), 0u);
}

}  // namespace
}  // namespace quire::bench
