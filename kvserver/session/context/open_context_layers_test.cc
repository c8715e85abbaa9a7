// SPDX-License-Identifier: Apache-2.0
//
// Pages whose layers arrive one by one. For any order, repeats and losses, the context ends up with
// the pages that were sent.
#include <gmock/gmock.h>

#include <algorithm>

#include "kvserver/session/context/open_context.h"
#include "kvserver/session/testing/session_fixture.h"
#include "tests/kit/same_bytes.h"

namespace quire::kvserver::testing {
namespace {

using ::testing::HasSubstr;

class OpenContextLayersTest : public SessionFixture {
 protected:
  StatusCode CodeOf(const StatusOr<uint64_t>& result) { return result.status().code(); }
  uint64_t UsedBytes() const {
    MetricValues values;
    contexts_.VisitMetrics(values);
    return values.values().at("contexts_open_bytes");
  }
};

TEST_F(OpenContextLayersTest, APageIsThereWhenItsLastLayerIs) {
  OpenContext& context = *OpenWith(1).context;
  const uint32_t p = spec_.page_tokens;
  EXPECT_EQ(*AppendLayers(context, 1, 2, {2}), p);
  EXPECT_EQ(*AppendLayers(context, 1, 1, {0, 1}), 2 * p) << "of two pages one is whole";
  ExpectContents(context.view());
  EXPECT_EQ(*AppendLayers(context, 2, 1, {0}), 2 * p);
  EXPECT_EQ(*AppendLayers(context, 2, 1, {1}), 3 * p);
  ExpectContents(context.view());
  const auto digests = ReadDigests(store_, kTenant, *context.view(), {1, 0, 3});
  ASSERT_TRUE(digests.ok());
  const auto whole = OpenWith(3).context->view();
  Payload a, b;
  digests->AppendTo(0, 3, &a);
  ReadDigests(store_, kTenant, *whole, {1, 0, 3})->AppendTo(0, 3, &b);
  EXPECT_TRUE(quire::testing::SameBytes(a.Flatten().bytes, b.Flatten().bytes));
}

TEST_F(OpenContextLayersTest, WholePagesWaitForThoseBeforeThem) {
  OpenContext& context = *OpenWith(0).context;
  EXPECT_EQ(*AppendLayers(context, 0, 1, {0, 1}), 0u);
  EXPECT_EQ(*AppendLayers(context, 1, 4, {0, 1, 2}), 0u);
  EXPECT_EQ(store_.num_segments(), 0u);
  EXPECT_EQ(*AppendLayers(context, 0, 1, {2}), 5u * spec_.page_tokens);
  EXPECT_EQ(store_.num_segments(), 1u);
  ExpectContents(context.view());
}

TEST_F(OpenContextLayersTest, AnyOrderWithRepeatsAndLossesMakesTheSameChain) {
  constexpr uint32_t kPages = 9;
  const SegmentKey tip = SealedWith(kPages, 2)->chain_tip();
  struct Message {
    uint32_t first, pages;
    std::vector<uint32_t> layers;
  };
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    SeededRandom random(seed);
    std::vector<Message> messages;
    for (uint32_t first = 0; first < kPages;) {
      const auto pages = static_cast<uint32_t>(1 + random.Below(std::min(4u, kPages - first)));
      for (uint32_t layer = 0; layer < spec_.num_layers; ++layer) {
        messages.push_back({first, pages, {layer}});
        if (random.Below(3) == 0) messages.push_back(messages.back());
        if (random.Below(4) == 0) messages.push_back({first, pages, {0, 1, 2}});
      }
      first += pages;
    }
    const auto opened = OpenWith(0);
    OpenContext& context = *opened.context;
    // A message that is lost, or arrives too early, is sent again.
    while (!messages.empty()) {
      std::swap(messages[random.Below(messages.size())], messages.back());
      const Message message = messages.back();
      const auto appended = AppendLayers(context, message.first, message.pages, message.layers);
      if (CodeOf(appended) == StatusCode::kInvalidArgument) continue;
      ASSERT_TRUE(appended.ok()) << appended.status();
      ExpectContents(context.view());
      if (random.Below(5) != 0) messages.pop_back();  // Otherwise its reply was lost.
    }
    ASSERT_EQ(context.view()->num_pages(), kPages);
    const auto sealed = Seal(context, kPages, 2);
    ASSERT_TRUE(sealed.ok()) << sealed.status();
    EXPECT_EQ((*sealed)->chain_tip(), tip);
    contexts_.Drop(kTenant, opened.id);
    EXPECT_EQ(UsedBytes(), 0u);
  }
}

TEST_F(OpenContextLayersTest, OtherBytesOrTokensAreRefusedWhereverThePageIs) {
  const ContextViewPtr chain = SealedWith(6);
  OpenContext& context = *OpenWith(3, chain).context;  // 4 shared, 2 copied, 3 appended pages.
  ASSERT_TRUE(AppendLayers(context, 9, 2, {1}).ok());  // Two pages with some layers.
  for (const uint32_t page : {0u, 3u, 5u, 7u, 8u, 9u, 10u}) {
    SCOPED_TRACE(page);
    EXPECT_TRUE(AppendLayers(context, page, 1, {1}).ok());
    const auto refused = AppendLayers(context, page, 1, {1}, /*seed=*/2);
    EXPECT_EQ(CodeOf(refused), StatusCode::kAlreadyExists);
    EXPECT_THAT(std::string(Message(refused.status())),
                HasSubstr("page " + std::to_string(page) + " of the open context has other bytes"));
    const std::vector<uint32_t> layers = {1};
    EXPECT_EQ(CodeOf(context.AppendLayers(page, TestTokens(spec_.page_tokens, 9999), layers,
                                          TestLayers(spec_, page, 1, layers))),
              StatusCode::kAlreadyExists);
  }
  ASSERT_TRUE(AppendLayers(context, 9, 2, {0, 2}).ok());
  ExpectContents(context.view());
}

TEST_F(OpenContextLayersTest, OfARefusedMessageNothingIsTaken) {
  OpenContext& context = *OpenWith(0).context;
  ASSERT_TRUE(AppendLayers(context, 0, 2, {0}).ok());
  const std::vector<uint32_t> layers = {0, 1};
  std::vector<std::byte> units = TestLayers(spec_, 0, 4, layers);
  units[2 * ExtentBytes(spec_, 1) - 1] ^= std::byte{1};  // Layer 0 of page 1.
  const uint64_t used = UsedBytes();
  EXPECT_EQ(CodeOf(context.AppendLayers(0, TestTokens(4 * spec_.page_tokens), layers, units)),
            StatusCode::kAlreadyExists);
  EXPECT_EQ(UsedBytes(), used) << "pages 2 and 3 have no room";
  EXPECT_EQ(CodeOf(AppendLayers(context, 3, 1, {0})), StatusCode::kInvalidArgument);
  // Layer 1 of page 0 was in the refused message: other bytes for it are still accepted.
  EXPECT_TRUE(AppendLayers(context, 0, 1, {1}, /*seed=*/2).ok());
}

TEST_F(OpenContextLayersTest, HolesAndWrongSizesAreRefused) {
  OpenContext& context = *OpenWith(1).context;
  ASSERT_TRUE(AppendLayers(context, 1, 2, {0}).ok());
  const auto hole = AppendLayers(context, 4, 1, {0});
  EXPECT_EQ(CodeOf(hole), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(hole.status())), HasSubstr("has 3 pages"));
  const std::vector<uint32_t> layers = {0, 2};
  const auto tokens = TestTokens(spec_.page_tokens);
  const auto units = TestLayers(spec_, 3, 1, layers);
  const auto code = [&](uint32_t first, std::span<const TokenId> ids,
                        std::span<const std::byte> bytes) {
    return CodeOf(context.AppendLayers(first, ids, layers, bytes));
  };
  EXPECT_EQ(code(3, {}, {}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(3, std::span(tokens).first(3), units), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(3, tokens, std::span(units).first(units.size() / 2)),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(code(~0u, tokens, units), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(3, tokens, units), StatusCode::kOk);
}

// Promise 6: incomplete pages count against the tenant's bytes, and a dropped context frees them.
TEST_F(OpenContextLayersTest, ArrivingPagesAreBoundedAndFreedWithTheirContext) {
  for (int round = 0; round < 3; ++round) {
    const auto opened = OpenWith(0);
    uint32_t page = 0;
    Status status;
    for (; status.ok() && page < 2000; page += 8) {
      status = AppendLayers(*opened.context, page, 8, {0}).status();
    }
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(Message(status)), HasSubstr("--context-bytes"));
    EXPECT_GE(UsedBytes(), uint64_t{page - 8} * SegmentBytes(spec_, 1));
    contexts_.Drop(kTenant, opened.id);
  }
  OpenWith(0);
  EXPECT_EQ(UsedBytes(), 0u);
}

TEST_F(OpenContextLayersTest, SealingNamesTheLayerThatIsMissing) {
  OpenContext& context = *OpenWith(1).context;
  ASSERT_TRUE(AppendLayers(context, 1, 2, {0, 2}).ok());
  const auto early = Seal(context, 3, 1);
  EXPECT_EQ(early.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(Message(early.status())),
              HasSubstr("page 1 of the context lacks layer 1"));
  ASSERT_TRUE(AppendLayers(context, 1, 2, {1}).ok());
  const auto sealed = Seal(context, 3, 1);
  ASSERT_TRUE(sealed.ok()) << sealed.status();
  ExpectContents(*sealed);
  EXPECT_EQ((*Seal(context, 3, 1))->chain_tip(), (*sealed)->chain_tip());
  EXPECT_EQ(CodeOf(AppendLayers(context, 3, 1, {0})), StatusCode::kFailedPrecondition);
}

TEST_F(OpenContextLayersTest, WhatCannotBeStoredIsKeptAndGoesOn) {
  OpenContext& context = *OpenWith(0).context;
  ASSERT_TRUE(AppendLayers(context, 0, 6, {0, 1}).ok());
  store_.FailPuts(ResourceExhausted("the disk is full"));
  EXPECT_EQ(CodeOf(AppendLayers(context, 0, 6, {2})), StatusCode::kResourceExhausted);
  EXPECT_EQ(context.view()->num_pages(), 3u);
  EXPECT_EQ(Seal(context, 6, 0).status().code(), StatusCode::kResourceExhausted);
  store_.FailPuts(OkStatus());
  EXPECT_EQ(*AppendLayers(context, 0, 6, {2}), 6u * spec_.page_tokens);
  ExpectContents(context.view());
}

TEST_F(OpenContextLayersTest, WholePagesCompleteThoseThatArrive) {
  OpenContext& context = *OpenWith(0).context;
  ASSERT_TRUE(AppendLayers(context, 0, 3, {1}).ok());
  EXPECT_EQ(CodeOf(Append(context, 0, 2, /*seed=*/2)), StatusCode::kAlreadyExists);
  EXPECT_EQ(CodeOf(Append(context, 1, 2)), StatusCode::kInvalidArgument) << "page 0 is not whole";
  EXPECT_EQ(*Append(context, 0, 5), 5u * spec_.page_tokens);
  ExpectContents(context.view());
}

TEST_F(OpenContextLayersTest, RepeatsAreKnownWhenTheCodecLosesBits) {
  const auto opened = contexts_.Open(kTenant, spec_, nullptr, {.codec = {.id = CodecId::kInt8}});
  ASSERT_TRUE(opened.ok()) << opened.status();
  OpenContext& context = *opened->context;
  ASSERT_TRUE(AppendLayers(context, 0, 4, {0, 1, 2}).ok());
  ASSERT_EQ(store_.num_segments(), 1u);
  EXPECT_EQ(*AppendLayers(context, 0, 4, {1}), 4u * spec_.page_tokens);
  EXPECT_EQ(CodeOf(AppendLayers(context, 2, 1, {1}, /*seed=*/2)), StatusCode::kAlreadyExists);
}

// Promise 1: the first bytes stand, also for a segment whose pages came layer by layer.
TEST_F(OpenContextLayersTest, AContextGoesOnOverTheBytesThatWereStoredFirst) {
  SealedWith(4);
  OpenContext& context = *OpenWith(0).context;
  ASSERT_TRUE(AppendLayers(context, 0, 4, {0}, /*seed=*/2).ok());
  EXPECT_EQ(*AppendLayers(context, 0, 4, {1, 2}, /*seed=*/2), 4u * spec_.page_tokens);
  EXPECT_EQ(*AppendLayers(context, 4, 2, {0, 1, 2}), 6u * spec_.page_tokens);
  EXPECT_EQ(store_.num_segments(), 1u);
  EXPECT_EQ(context.num_differing(), 1u);
  ExpectContents(context.view());
}

}  // namespace
}  // namespace quire::kvserver::testing
