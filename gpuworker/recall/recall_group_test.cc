// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/recall/recall_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "gpuworker/testing/fake_store.h"
#include "gpuworker/testing/held_transport.h"
#include "gpuworker/testing/tiny_spec.h"
#include "quire/layout.h"
#include "quire/session_landing.h"
#include "tests/kit/fake_clock.h"
#include "transport/local/loopback_transport.h"

namespace quire::worker {
namespace {

constexpr uint32_t kPages = 8;
constexpr uint32_t kSequences = 3;

/// Units come in messages, or are written into a staging area.
class RecallGroupTest : public ::testing::TestWithParam<bool> {
 protected:
  RecallGroupTest() {
    const auto transport = std::make_shared<testing::HeldTransport>(
        std::make_shared<LoopbackTransport>(&store_, LoopbackTransport::Options{.clock = &clock_}),
        &clock_);
    transport->lands_directly = GetParam();
    client_ = *Client::Create({.transport = transport, .clock = &clock_});
    std::vector<SequenceSpec> sequences;
    for (uint32_t i = 0; i < kSequences; ++i) {
      contexts_.push_back(client_->OpenContext(spec_, std::nullopt)->id);
      // Every byte of a sequence's pages is its number.
      Payload payload;
      payload.Append(std::vector<std::byte>(SegmentBytes(spec_, kPages), std::byte(i + 1)));
      EXPECT_TRUE(
          client_->AppendPages(contexts_[i], 0, std::vector<TokenId>(kPages * 2), payload).ok());
      sequences.push_back({.members = {{.context = contexts_[i]}}});
    }
    session_ = *client_->OpenSession(sequences,
                                     {.spec = spec_, .slots_per_head = 2, .managed_layers = {}});
    staging_.emplace(session_.get());
    EXPECT_EQ(staging_->Reserve(kSequences - 1), OkStatus());
    group_.emplace(session_.get(), &*staging_);
    for (uint32_t i = 0; i < kSequences; ++i) channels_.push_back(group_->Channel(i));
  }

  std::unique_ptr<ChannelRecall> Ask(uint32_t sequence, uint32_t layer, PageLists pages,
                                     Priority priority = Priority::kCorrection) {
    auto recall = channels_[sequence]->Start({.layer = layer, .pages = std::move(pages)},
                                             {.priority = priority});
    EXPECT_TRUE(recall.ok()) << recall.status();
    return *std::move(recall);
  }
  /// Takes the recall's part, which has `units` units of `sequence` at `layer`, and its end.
  void ExpectPart(ChannelRecall& recall, uint32_t sequence, uint32_t layer, size_t units) {
    auto part = recall.Next();
    ASSERT_TRUE(part.ok()) << part.status();
    ASSERT_TRUE(part->has_value());
    ASSERT_EQ((*part)->lanes.size(), 1u);
    EXPECT_EQ((*part)->lanes[0].sequence, sequence);
    EXPECT_EQ((*part)->lanes[0].layer, layer);
    EXPECT_EQ((*part)->placements.size(), units);
    EXPECT_EQ((*part)->checksums.size(), units);
    EXPECT_EQ((*part)->payload.size_bytes(), units * UnitBytes(spec_));
    EXPECT_EQ((*part)->landed_bytes, GetParam() ? units * UnitBytes(spec_) : 0);
    const Slice bytes = (*part)->payload.Flatten();
    for (const std::byte byte : bytes.bytes) ASSERT_EQ(byte, std::byte(sequence + 1));
    channels_[sequence]->Applied(**part);
    part = recall.Next();
    EXPECT_TRUE(part.ok() && !part->has_value());
  }

  const KvSpec spec_ = testing::TinySpec();
  quire::testing::FakeClock clock_;
  testing::FakeStore store_;
  std::vector<uint64_t> contexts_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<ClientSession> session_;
  std::optional<StagingArea> staging_;
  std::optional<RecallGroup> group_;
  std::vector<std::unique_ptr<RecallChannel>> channels_;
};

TEST_P(RecallGroupTest, WhatSequencesAskForLeavesAsOneMessageAndEachTakesItsOwn) {
  const auto a = Ask(0, 0, {{1, 2}, {3}});
  const auto b = Ask(1, 0, {{4}, {}});
  const auto c = Ask(2, 0, {{}, {5, 6}});
  EXPECT_EQ(store_.calls("Session/Recall"), 0u);
  group_->Send();
  EXPECT_EQ(store_.calls("Session/Recall"), 1u);
  ExpectPart(*c, 2, 0, 2);
  ExpectPart(*a, 0, 0, 3);
  ExpectPart(*b, 1, 0, 1);
  EXPECT_EQ(store_.calls("Session/Recall"), 1u);
  EXPECT_EQ(group_->messages(), 1u);
  EXPECT_EQ(group_->lanes(), 3u);
}

TEST_P(RecallGroupTest, UnitsThatASequenceHoldsAreMissingFromItsPayloadOnly) {
  const auto ask = [&](uint32_t sequence, PageLists pages, PageLists held) {
    return *channels_[sequence]->Start({.pages = std::move(pages), .held = std::move(held)}, {});
  };
  const auto a = ask(0, {{1, 2}, {3}}, {{2}, {}});
  const auto b = ask(1, {{4}, {5}}, {{4}, {5}});
  const auto c = ask(2, {{}, {5, 6}}, {});
  group_->Send();
  EXPECT_EQ(store_.calls("Session/Recall"), 1u);
  ExpectPart(*c, 2, 0, 2);
  for (const auto& [recall, sequence, units, held] :
       {std::tuple(a.get(), 0, 3, std::vector<size_t>{1}), {b.get(), 1, 2, {0, 1}}}) {
    const auto part = recall->Next();
    ASSERT_TRUE(part.ok() && part->has_value()) << part.status();
    EXPECT_EQ((*part)->placements.size(), units);
    EXPECT_EQ((*part)->checksums.size(), units);
    EXPECT_EQ((*part)->held, held);
    const Slice bytes = (*part)->payload.Flatten();
    EXPECT_EQ(bytes.bytes.size(), (units - held.size()) * UnitBytes(spec_));
    for (const std::byte byte : bytes.bytes) ASSERT_EQ(byte, std::byte(sequence + 1));
  }
}

TEST_P(RecallGroupTest, EachPriorityIsAMessageAndWaitingSendsWhatCollected) {
  const auto urgent = Ask(0, 0, {{1}, {1}});
  const auto later = Ask(1, 0, {{1}, {1}}, Priority::kPrefetch);
  const auto other = Ask(2, 0, {{1}, {1}});
  ExpectPart(*later, 1, 0, 2);  // Not sent yet.
  EXPECT_EQ(store_.calls("Session/Recall"), 2u);
  ExpectPart(*urgent, 0, 0, 2);
  ExpectPart(*other, 2, 0, 2);
  EXPECT_EQ(store_.calls("Session/Recall"), 2u);
}

TEST_P(RecallGroupTest, LayersOfOneSequenceMayShareAMessage) {
  const auto first = Ask(0, 0, {{1}, {1}});
  const auto second = Ask(0, 1, {{2}, {2, 3}});
  group_->Send();
  ExpectPart(*second, 0, 1, 3);
  ExpectPart(*first, 0, 0, 2);
  EXPECT_EQ(store_.calls("Session/Recall"), 1u);
}

TEST_P(RecallGroupTest, OneSequencesLossIsItsOwn) {
  ASSERT_EQ(client_->DropContext(contexts_[1]), OkStatus());
  const auto a = Ask(0, 0, {{1}, {1}});
  const auto b = Ask(1, 0, {{1}, {1}});
  const auto c = Ask(2, 0, {{1}, {1}});
  group_->Send();
  ExpectPart(*a, 0, 0, 2);
  ExpectPart(*c, 2, 0, 2);
  EXPECT_EQ(b->Next().status().code(), StatusCode::kNotFound);
  EXPECT_EQ(b->Next().status().code(), StatusCode::kNotFound);
}

TEST_P(RecallGroupTest, AFailureThatPassesIsNobodysLoss) {
  store_.FailOnce("Session/Recall", 0, NotFound("for once"));
  const auto a = Ask(0, 0, {{1}, {1}});
  const auto b = Ask(1, 0, {{1}, {1}});
  group_->Send();
  ExpectPart(*a, 0, 0, 2);
  ExpectPart(*b, 1, 0, 2);
}

TEST_P(RecallGroupTest, WhoGivesUpLetsTheOthersGoOn) {
  auto a = Ask(0, 0, {{1}, {1}}, Priority::kPrefetch);
  const auto b = Ask(1, 0, {{2}, {2}}, Priority::kPrefetch);
  const auto c = Ask(2, 0, {{3}, {3}}, Priority::kPrefetch);
  group_->Send();
  a.reset();
  const auto again = Ask(0, 0, {{4}, {5, 6}});
  group_->Send();
  ExpectPart(*again, 0, 0, 3);
  ExpectPart(*b, 1, 0, 2);
  ExpectPart(*c, 2, 0, 2);
}

TEST_P(RecallGroupTest, WhoGivesUpTogetherMakesOneMessageMore) {
  auto a = Ask(0, 0, {{1}, {1}}, Priority::kPrefetch);
  auto b = Ask(1, 0, {{2}, {2}}, Priority::kPrefetch);
  const auto c = Ask(2, 0, {{3}, {3}}, Priority::kPrefetch);
  group_->Send();
  a.reset();
  b.reset();
  EXPECT_EQ(group_->messages(), 1u);
  group_->Send();
  EXPECT_EQ(group_->messages(), 2u);
  EXPECT_EQ(group_->lanes(), 4u);
  ExpectPart(*c, 2, 0, 2);
}

TEST_P(RecallGroupTest, WhatIsGivenUpBeforeItLeavesNeverLeaves) {
  auto a = Ask(0, 0, {{1}, {1}});
  a.reset();
  group_->Send();
  EXPECT_EQ(store_.calls("Session/Recall"), 0u);
  const auto b = Ask(0, 0, {{1}, {1}});
  ExpectPart(*b, 0, 0, 2);
  EXPECT_EQ(group_->lanes(), 1u);
}

TEST_P(RecallGroupTest, WhatWasNotAppliedComesAgain) {
  {
    const auto a = Ask(0, 0, {{1}, {1}});
    const auto b = Ask(1, 0, {{1}, {1}});
    group_->Send();
    ASSERT_TRUE(a->Next().ok());  // Handed out, not applied.
    ExpectPart(*b, 1, 0, 2);
  }
  const auto a = Ask(0, 0, {{1}, {1}});
  const auto b = Ask(1, 0, {{1}, {1, 2}});
  ExpectPart(*a, 0, 0, 2);
  ExpectPart(*b, 1, 0, 1);
}

TEST_P(RecallGroupTest, ASequenceThatJoinsGetsAPlaceWhileOthersRecall) {
  StagingArea area(session_.get());
  ASSERT_EQ(area.Reserve(0), OkStatus());
  RecallGroup group(session_.get(), &area);
  channels_.clear();
  for (uint32_t i = 0; i < kSequences; ++i) channels_.push_back(group.Channel(i));
  const auto before = Ask(0, 0, {{1, 2}, {3}});
  ASSERT_EQ(area.Reserve(2), OkStatus());
  EXPECT_EQ(area.landing() == nullptr ? 0 : area.landing()->num_sequences(), GetParam() ? 4u : 0u);
  const auto after = Ask(2, 0, {{4}, {}});
  group.Send();
  ExpectPart(*before, 0, 0, 3);
  ExpectPart(*after, 2, 0, 1);
  EXPECT_EQ(group.messages(), GetParam() ? 2u : 1u);  // A message has one landing.
  const auto again = Ask(0, 0, {{5}, {}});
  ExpectPart(*again, 0, 0, 1);
}

INSTANTIATE_TEST_SUITE_P(Ways, RecallGroupTest, ::testing::Bool(),
                         [](const auto& way) { return way.param ? "Landing" : "Messages"; });

}  // namespace
}  // namespace quire::worker
