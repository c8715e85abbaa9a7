// SPDX-License-Identifier: Apache-2.0
#include "kvserver/session/context/context_table.h"

#include <gmock/gmock.h>

#include "kvserver/session/testing/session_fixture.h"

namespace quire::kvserver::testing {
namespace {

using ::testing::HasSubstr;

class ContextTableTest : public SessionFixture {};

TEST_F(ContextTableTest, AContextBelongsToItsTenant) {
  const auto opened = OpenWith(1);
  EXPECT_TRUE(contexts_.Find(kTenant, opened.id).ok());
  EXPECT_EQ(contexts_.Find("team-b", opened.id).status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(contexts_.Drop("team-b", opened.id));
  EXPECT_TRUE(contexts_.Drop(kTenant, opened.id));
  EXPECT_FALSE(contexts_.Drop(kTenant, opened.id));
}

TEST_F(ContextTableTest, BoundsTheNumberOfOpenContextsButNotOfSealedOnes) {
  for (int i = 0; i < 20; ++i) {
    const auto opened = OpenWith(1);
    ASSERT_TRUE(Seal(*opened.context, 1, 0).ok());
    contexts_.Retire(kTenant, opened.id);
    EXPECT_TRUE(contexts_.Find(kTenant, opened.id).ok());
  }
  for (int i = 0; i < 4; ++i) OpenWith(0);
  EXPECT_EQ(contexts_.Open(kTenant, spec_, nullptr).status().code(),
            StatusCode::kResourceExhausted);
}

TEST_F(ContextTableTest, SealedContextsAreKnownToTheirTenantWhateverOthersSeal) {
  const auto seal = [&](std::string_view tenant) {
    const auto opened = contexts_.Open(tenant, spec_, nullptr);
    EXPECT_TRUE(opened.ok()) << opened.status();
    EXPECT_TRUE(Append(*opened->context, 0, 1).ok());
    EXPECT_TRUE(Seal(*opened->context, 1, 0).ok());
    contexts_.Retire(tenant, opened->id);
    return opened->id;
  };
  const uint64_t mine = seal(kTenant);
  std::vector<uint64_t> theirs;
  for (int i = 0; i < 300; ++i) theirs.push_back(seal("team-b"));
  EXPECT_TRUE(contexts_.Find(kTenant, mine).ok());
  EXPECT_FALSE(contexts_.Find("team-b", mine).ok());
  // The last ones, which may still be named; then as many as the tenant may have open.
  const auto expect_known = [&](size_t count) {
    for (size_t i = 0; i < theirs.size(); ++i) {
      EXPECT_EQ(contexts_.Find("team-b", theirs[i]).ok(), i + count >= theirs.size()) << i;
    }
  };
  expect_known(4 * ContextTable::kMostToBeNamed);
  clock_.Advance(ContextTable::kNamingTime);
  contexts_.ReleaseUnnamed();
  theirs.push_back(seal("team-b"));
  expect_known(4);
  EXPECT_FALSE(contexts_.Drop("team-b", mine));
  EXPECT_TRUE(contexts_.Drop(kTenant, mine));
  EXPECT_FALSE(contexts_.Find(kTenant, mine).ok());
}

// Nothing removes the segments between the seal and the registration. Afterwards a document has
// them, or they were not wanted.
TEST_F(ContextTableTest, ASealedContextHoldsItsSegmentsUntilTheyAreNamedOrItsTimeIsOver) {
  for (const bool named : {true, false}) {
    const auto opened = OpenWith(5);
    ContextViewPtr view = *Seal(*opened.context, 5, 0);
    contexts_.Retire(kTenant, opened.id);
    const SegmentKey tip = view->chain_tip();
    const std::vector<SegmentKey> keys = *view->keys;
    view.reset();
    (void)store_.MarkForDeletion(kTenant, keys);
    EXPECT_EQ(store_.num_segments(), 2u);
    EXPECT_EQ(store_.RemoveMarked(kTenant, keys[0], store_.Incarnations(keys)[0]).code(),
              StatusCode::kFailedPrecondition);
    if (named) {
      contexts_.Named(kTenant, opened.id, tip);
    } else {
      clock_.Advance(ContextTable::kNamingTime);
      contexts_.ReleaseUnnamed();
    }
    EXPECT_EQ(store_.num_segments(), 0u);
  }
}

// Another client that sealed the same chain has still to name it.
TEST_F(ContextTableTest, ANameEndsOneHoldOfAChainThatWasSealedTwice) {
  const auto first = OpenWith(5), second = OpenWith(5);
  const SegmentKey tip = (*Seal(*first.context, 5, 0))->chain_tip();
  const std::vector<SegmentKey> keys = *(*Seal(*second.context, 5, 0))->keys;
  contexts_.Retire(kTenant, first.id);
  contexts_.Retire(kTenant, second.id);
  contexts_.Named(kTenant, first.id, tip);
  contexts_.Named(kTenant, second.id, keys.front());
  contexts_.Named(kTenant, 0, tip);
  (void)store_.MarkForDeletion(kTenant, keys);
  EXPECT_EQ(store_.num_segments(), keys.size()) << "the second context holds them";
  contexts_.Named(kTenant, second.id, tip);
  EXPECT_EQ(store_.num_segments(), 0u);
}

TEST_F(ContextTableTest, BoundsTheBytesThatOneTenantsTailsHold) {
  const auto opened = OpenWith(0);
  Status status;
  uint32_t page = 0;
  for (; status.ok() && page < 2000; ++page) {
    status = AppendLayers(*opened.context, page, 1, {0}).status();  // A page that is not whole.
  }
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(Message(status)), HasSubstr("--context-bytes"));
  EXPECT_LT(page, 2000u);
  contexts_.Drop(kTenant, opened.id);
}

// Promise 6: the bound holds, and dead clients do not count against live ones.
TEST_F(ContextTableTest, WhatDeadClientsLeaveDoesNotBlockTheirTenant) {
  std::vector<uint64_t> dead;
  for (int i = 0; i < 4; ++i) dead.push_back(OpenWith(1).id);
  ASSERT_EQ(contexts_.Open(kTenant, spec_, nullptr).status().code(),
            StatusCode::kResourceExhausted);
  clock_.Advance(contexts_.lease() / 3 + std::chrono::seconds(1));
  const uint64_t living = OpenWith(0).id;
  EXPECT_TRUE(contexts_.Find(kTenant, living).ok());
  EXPECT_EQ(contexts_.Renew(kTenant, dead).size(), 1u) << "one makes room";
}

TEST_F(ContextTableTest, BytesThatDeadClientsHoldAreGivenBack) {
  // Pages with missing layers are charged in full.
  const auto append = [&](OpenContext& context, uint32_t page) {
    return AppendLayers(context, page, 1, {0}).status();
  };
  auto dead = OpenWith(0);
  Status status;
  for (uint32_t page = 0; status.ok(); ++page) status = append(*dead.context, page);
  ASSERT_EQ(status.code(), StatusCode::kResourceExhausted);
  dead.context.reset();
  const auto living = OpenWith(0);
  ASSERT_FALSE(append(*living.context, 0).ok());
  clock_.Advance(contexts_.lease() / 3 + std::chrono::seconds(1));
  EXPECT_EQ(append(*living.context, 0), OkStatus());
  EXPECT_FALSE(contexts_.Find(kTenant, dead.id).ok());
  EXPECT_TRUE(contexts_.Find(kTenant, living.id).ok());
}

TEST_F(ContextTableTest, RefusesToContinueUnderAnotherSpecNamingTheField) {
  const ContextViewPtr chain = SealedWith(1);
  KvSpec other = spec_;
  other.rope.theta = 5e5;
  const auto opened = contexts_.Open(kTenant, other, chain);
  EXPECT_EQ(opened.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(opened.status())), HasSubstr("rope.theta"));
}

}  // namespace
}  // namespace quire::kvserver::testing
