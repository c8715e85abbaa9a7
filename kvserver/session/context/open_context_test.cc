// SPDX-License-Identifier: Apache-2.0
#include "kvserver/session/context/open_context.h"

#include <gmock/gmock.h>

#include "kvserver/session/testing/session_fixture.h"

namespace quire::kvserver::testing {
namespace {

using ::testing::HasSubstr;

class OpenContextTest : public SessionFixture {};

TEST_F(OpenContextTest, FullSegmentsGoToTheStoreAtOnce) {
  const auto opened = OpenWith(3);
  EXPECT_EQ(store_.num_segments(), 0u);
  ASSERT_EQ(*Append(*opened.context, 3, 6), 9u * spec_.page_tokens);
  EXPECT_EQ(store_.num_segments(), 2u);
  EXPECT_EQ(opened.context->view()->tail.size(), 1u);
  ExpectContents(opened.context->view());
}

TEST_F(OpenContextTest, SealingStoresTheRestAndNamesTheChain) {
  for (const uint32_t pages : {1u, 3u, 4u, 5u, 8u}) {
    for (const uint32_t tail : {0u, 1u, 3u}) {
      const ContextViewPtr view = SealedWith(pages, tail);
      EXPECT_EQ(view->num_tokens, pages * spec_.page_tokens + tail);
      EXPECT_TRUE(view->tail.empty());
      ExpectContents(view);
      const auto chain = store_.ResolveChain(kTenant, view->chain_tip());
      ASSERT_TRUE(chain.ok());
      EXPECT_EQ((*chain)->keys, *view->keys);
      EXPECT_EQ((*chain)->num_tokens, view->num_tokens);
      EXPECT_EQ(*ShortPageTokens(store_, kTenant, *view),
                TestTokens(tail, 100 + static_cast<TokenId>(pages * spec_.page_tokens)));
    }
  }
}

TEST_F(OpenContextTest, ContinuingSharesSegmentsCopiesPagesAndDropsTheShortPage) {
  for (const uint32_t pages : {4u, 6u, 7u}) {
    const ContextViewPtr chain = SealedWith(pages, 2);
    const size_t before = store_.num_segments();
    const auto opened = OpenWith(0, chain);
    EXPECT_EQ(store_.num_segments(), before);
    EXPECT_EQ(opened.context->view()->num_pages(), pages);
    ExpectContents(opened.context->view());
    ASSERT_TRUE(Append(*opened.context, pages, 3).ok());
    ExpectContents(opened.context->view());
    contexts_.Drop(kTenant, opened.id);
  }
}

TEST_F(OpenContextTest, AnOpenContextCanBeContinuedToo) {
  const auto first = OpenWith(6);
  const auto second = OpenWith(1, first.context->view());
  EXPECT_EQ(second.context->view()->num_pages(), 7u);
  ExpectContents(second.context->view());
}

TEST_F(OpenContextTest, ReSendingIsIdempotentAndComparesBytesAndTokens) {
  const auto opened = OpenWith(6);
  EXPECT_EQ(*Append(*opened.context, 0, 6), 6u * spec_.page_tokens);
  EXPECT_EQ(*Append(*opened.context, 2, 5), 7u * spec_.page_tokens);  // 2..5 known, 6 new
  for (const uint32_t page : {0u, 5u}) {
    EXPECT_EQ(Append(*opened.context, page, 1, /*seed=*/2).status().code(),
              StatusCode::kAlreadyExists);
    EXPECT_EQ(
        opened.context->Append(page, TestTokens(spec_.page_tokens, 9999), TestPages(spec_, page, 1))
            .status()
            .code(),
        StatusCode::kAlreadyExists);
  }
  ExpectContents(opened.context->view());
}

class PrivateContextTest : public OpenContextTest {
 protected:
  ContextTable::Opened OpenPrivate(const ContextViewPtr& chain) {
    auto opened = contexts_.Open(kTenant, spec_, chain, {.private_pages = true});
    EXPECT_TRUE(opened.ok()) << opened.status();
    return *opened;
  }
  /// Number of public segments of the first `pages` pages.
  size_t Found(uint32_t pages) {
    return store_.Lookup(kTenant, spec_, TestTokens(pages * spec_.page_tokens, 100)).value().size();
  }
};

TEST_F(PrivateContextTest, NobodyElseFindsItsPagesAndOthersMayPutTheirOwn) {
  const ContextViewPtr chain = SealedWith(4);
  const size_t shared = Found(8);
  const auto own = OpenPrivate(chain);
  ASSERT_TRUE(Append(*own.context, 4, 4, /*seed=*/2).ok());
  EXPECT_EQ(own.context->view()->tail.size(), 0u) << "stored, not kept in memory";
  EXPECT_EQ(Found(8), shared);
  // Other bytes for the same tokens do not disturb the other context.
  const auto exact = OpenWith(4, chain);
  ASSERT_TRUE(Seal(*exact.context, 8, 0).ok());
  ExpectContents(exact.context->view());
  EXPECT_GT(Found(8), shared);
}

TEST_F(PrivateContextTest, ItsSegmentsGoWithTheLastView) {
  const ContextViewPtr chain = SealedWith(4);
  const size_t before = store_.num_segments();
  auto own = OpenPrivate(chain);
  ASSERT_TRUE(Append(*own.context, 4, 4).ok());
  EXPECT_GT(store_.num_segments(), before);
  ContextViewPtr view = own.context->view();
  own.context.reset();
  EXPECT_TRUE(contexts_.Drop(kTenant, own.id));
  ExpectContents(view);
  view.reset();
  EXPECT_EQ(store_.num_segments(), before);
}

TEST_F(PrivateContextTest, OneThatEndsTakesItsSegmentsAlong) {
  const size_t before = store_.num_segments();
  {
    const auto own = OpenPrivate(nullptr);
    ASSERT_TRUE(Append(*own.context, 0, 4).ok());
  }
  EXPECT_GT(store_.num_segments(), before);
  clock_.Advance(std::chrono::hours(1));
  contexts_.RemoveExpired();
  EXPECT_EQ(store_.num_segments(), before);
}

TEST_F(PrivateContextTest, WhatContinuesItIsPrivateTooAndKeepsItsPages) {
  const size_t before = store_.num_segments();
  auto first = OpenPrivate(nullptr);
  ASSERT_TRUE(Append(*first.context, 0, 4).ok());
  auto second = OpenWith(4, first.context->view());
  first.context.reset();
  EXPECT_TRUE(contexts_.Drop(kTenant, first.id));
  ExpectContents(second.context->view());
  EXPECT_EQ(Found(8), 0u);
  EXPECT_EQ(Seal(*second.context, 8, 0).status().code(), StatusCode::kFailedPrecondition);
  second.context.reset();
  EXPECT_TRUE(contexts_.Drop(kTenant, second.id));
  EXPECT_EQ(store_.num_segments(), before);
}

TEST_F(PrivateContextTest, AChainOfThemIsBounded) {
  const size_t before = store_.num_segments();
  auto last = OpenPrivate(nullptr);
  Status refused;
  uint32_t depth = 1;
  for (; refused.ok() && depth < 1000; ++depth) {
    ASSERT_TRUE(Append(*last.context, last.context->view()->num_pages(), 2).ok());
    const auto next = contexts_.Open(kTenant, spec_, last.context->view());
    refused = next.status();
    if (!next.ok()) break;
    EXPECT_TRUE(contexts_.Drop(kTenant, last.id));
    last = *next;
  }
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(depth, PrivateSegments::kMaxDepth);
  ExpectContents(last.context->view());
  last.context.reset();
  contexts_.RemoveExpired();
  clock_.Advance(std::chrono::hours(1));
  contexts_.RemoveExpired();
  EXPECT_EQ(store_.num_segments(), before);
}

TEST_F(PrivateContextTest, ItCannotBeSealed) {
  const auto own = OpenPrivate(nullptr);
  ASSERT_TRUE(Append(*own.context, 0, 1).ok());
  const Status status = Seal(*own.context, 1, 0).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(Message(status)), HasSubstr("private"));
}

TEST_F(OpenContextTest, ReSendingIsIdempotentWhenTheCodecLosesBits) {
  const auto opened = contexts_.Open(kTenant, spec_, nullptr, {.codec = {.id = CodecId::kInt8}});
  ASSERT_TRUE(opened.ok()) << opened.status();
  OpenContext& context = *opened->context;
  ASSERT_TRUE(Append(context, 0, 6).ok());
  std::vector<UnitBytes> stored;
  const UnitRef first[] = {{0, 0, 0}};
  ASSERT_TRUE(ReadUnits(store_, kTenant, context.view(), first, &stored).ok());
  ASSERT_NE(BytesOf(stored[0]), TestUnit(spec_, 0, 0, 0, spec_.page_tokens)) << "bits are lost";
  EXPECT_EQ(*Append(context, 0, 6), 6u * spec_.page_tokens);
  EXPECT_EQ(*Append(context, 3, 2), 6u * spec_.page_tokens);
  EXPECT_EQ(Append(context, 1, 1, /*seed=*/2).status().code(), StatusCode::kAlreadyExists);
  ASSERT_TRUE(Seal(context, 6, 2).ok());
  EXPECT_TRUE(Seal(context, 6, 2).ok());
}

TEST_F(OpenContextTest, RefusesHolesAndWrongSizes) {
  const auto opened = OpenWith(1);
  const auto hole = Append(*opened.context, 2, 1);
  EXPECT_EQ(hole.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(hole.status())), HasSubstr("has 1 pages"));
  const auto units = TestPages(spec_, 1, 1);
  const auto tokens = TestTokens(spec_.page_tokens);
  OpenContext& context = *opened.context;
  EXPECT_FALSE(context.Append(1, {}, {}).ok());
  EXPECT_FALSE(context.Append(1, std::span(tokens).first(3), units).ok());
  EXPECT_FALSE(context.Append(1, tokens, std::span(units).first(units.size() - 1)).ok());
  EXPECT_FALSE(context.Append(1, tokens, {}).ok());
  EXPECT_FALSE(context.Append(~0u, tokens, units).ok());
  EXPECT_EQ(context.view()->num_pages(), 1u);
}

TEST_F(OpenContextTest, AFailedPutKeepsWholePagesAndCanBeRepeated) {
  const auto opened = OpenWith(2);
  store_.FailPuts(ResourceExhausted("the disk is full"));
  EXPECT_EQ(Append(*opened.context, 2, 4).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(opened.context->view()->num_pages(), 3u);
  store_.FailPuts(OkStatus());
  EXPECT_EQ(*Append(*opened.context, 2, 4), 6u * spec_.page_tokens);
  ExpectContents(opened.context->view());
}

TEST_F(OpenContextTest, SealingAgainAnswersTheSameAndSealedContextsDoNotGrow) {
  const auto opened = OpenWith(5);
  const auto first = Seal(*opened.context, 5, 2);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ((*Seal(*opened.context, 5, 2))->chain_tip(), (*first)->chain_tip());
  EXPECT_EQ(Seal(*opened.context, 5, 1).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Append(*opened.context, 5, 1).status().code(), StatusCode::kFailedPrecondition);
}

TEST_F(OpenContextTest, AFailedSealChangesNothing) {
  const auto opened = OpenWith(2);
  store_.FailPuts(ResourceExhausted("the disk is full"));
  EXPECT_EQ(Seal(*opened.context, 2, 1).status().code(), StatusCode::kResourceExhausted);
  store_.FailPuts(OkStatus());
  EXPECT_EQ(opened.context->view()->num_tokens, 8u);
  EXPECT_TRUE(Append(*opened.context, 2, 1).ok());
}

TEST_F(OpenContextTest, RefusesToSealNothingOrAWrongTail) {
  const auto opened = OpenWith(0);
  EXPECT_EQ(Seal(*opened.context, 0, 0).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Seal(*opened.context, 0, spec_.page_tokens).status().code(),
            StatusCode::kInvalidArgument);
  const auto tokens = TestTokens(1);
  EXPECT_FALSE(opened.context->Seal(tokens, {}, Durability::kMemory).ok());
}

// Promise 1: the first bytes under a key stand. A context with other bytes continues over the
// stored segments, with its own tail.
TEST_F(OpenContextTest, AContextGoesOnOverTheBytesThatWereStoredFirst) {
  const SegmentKey tip = SealedWith(8)->chain_tip();
  const auto opened = OpenWith(0);
  OpenContext& context = *opened.context;
  ASSERT_TRUE(Append(context, 0, 6, /*seed=*/2).ok());
  EXPECT_EQ(store_.num_segments(), 2u);
  EXPECT_EQ(context.num_differing(), 1u);
  const ContextViewPtr view = context.view();
  ASSERT_EQ(view->tail.size(), 2u);
  const std::vector<UnitRef> refs = {{1, 3, 1}, {1, 4, 1}};
  std::vector<UnitBytes> units;
  ASSERT_TRUE(ReadUnits(store_, kTenant, view, refs, &units).ok());
  EXPECT_EQ(BytesOf(units[0]), TestUnit(spec_, 3, 1, 1, spec_.page_tokens, 1));
  EXPECT_EQ(BytesOf(units[1]), TestUnit(spec_, 4, 1, 1, spec_.page_tokens, 2));
  EXPECT_TRUE(Append(context, 2, 3, /*seed=*/2).ok()) << "what it sent is known to be its own";
  ASSERT_TRUE(Append(context, 6, 2, /*seed=*/2).ok());
  const auto sealed = Seal(context, 8, 0);
  ASSERT_TRUE(sealed.ok()) << sealed.status();
  EXPECT_EQ((*sealed)->chain_tip(), tip);
  EXPECT_EQ(context.num_differing(), 2u);
  ExpectContents(*sealed);
}

TEST_F(OpenContextTest, AStrictContextIsRefusedOtherBytesAndKeepsWhatItHas) {
  SealedWith(4);
  const auto opened = contexts_.Open(kTenant, spec_, nullptr, {.strict = true});
  ASSERT_TRUE(opened.ok()) << opened.status();
  OpenContext& context = *opened->context;
  EXPECT_EQ(Append(context, 0, 6, /*seed=*/2).status().code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(context.view()->num_pages(), 3u);
  const auto same = contexts_.Open(kTenant, spec_, nullptr, {.strict = true});
  EXPECT_EQ(*Append(*same->context, 0, 6), 6u * spec_.page_tokens);
  EXPECT_EQ(same->context->num_differing(), 0u);
}

TEST_F(OpenContextTest, TailDigestsEqualThoseOfTheStore) {
  const auto opened = OpenWith(7);
  const auto view = opened.context->view();
  const auto sealed = Seal(*opened.context, 7, 0);
  for (const DigestKind kind : kernels::kDigestKinds) {
    const auto from_store = ReadDigests(store_, kTenant, **sealed, {2, 0, 7, kind});
    for (int times = 0; times < 2; ++times) {  // Derived digests are made once.
      const auto from_tail = ReadDigests(store_, kTenant, *view, {2, 0, 7, kind});
      ASSERT_TRUE(from_tail.ok());
      Payload a, b;
      from_tail->AppendTo(0, 7, &a);
      from_store->AppendTo(0, 7, &b);
      const Slice tail = a.Flatten(), stored = b.Flatten();
      ASSERT_EQ(tail.bytes.size(), 7 * PageDigestBytes(spec_, kind));
      EXPECT_TRUE(std::equal(tail.bytes.begin(), tail.bytes.end(), stored.bytes.begin()));
    }
  }
}

}  // namespace
}  // namespace quire::kvserver::testing
