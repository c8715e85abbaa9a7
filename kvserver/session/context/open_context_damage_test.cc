// SPDX-License-Identifier: Apache-2.0
//
// Promise 2 (bytes that fail their checksum are never returned) where an open context keeps or
// copies pages. A bit flipped in memory is detected, and never gets a checksum of its own.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "common/base/observe/metrics.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kvserver/session/context/context_table.h"
#include "kvserver/session/context/context_view.h"
#include "kvserver/session/context/open_context.h"
#include "kvserver/session/context/tail_scrub.h"
#include "kvserver/session/testing/test_pages.h"
#include "kvserver/store/page_store_impl.h"
#include "kvserver/store/repair/scrubber.h"
#include "kvserver/store/testing/memory_damage.h"
#include "kvserver/store/testing/store_kit.h"
#include "tests/kit/same_bytes.h"
#include "tests/kit/temp_dir.h"

namespace quire::kvserver::testing {
namespace {

constexpr char kDefaultTenant[] = "default";

class OpenContextDamageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = PageStoreImpl::Open(
        {.ssd_path = dir_.path(), .dram_bytes = 1 << 20, .ssd_volume_bytes = kTestVolumeBytes}, {});
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
  }
  StatusOr<std::shared_ptr<OpenContext>> Create(const ContextViewPtr& chain) {
    OpenContext::Deps deps{.tenant = kDefaultTenant,
                           .store = store_.get(),
                           .ops = &kernels::CpuKernels(),
                           .budget = std::make_shared<MemoryBudget>(1 << 20, "pages", "bytes")};
    return OpenContext::Create(std::move(deps), spec_, chain);
  }
  std::shared_ptr<OpenContext> Open(const ContextViewPtr& chain = nullptr) {
    auto context = Create(chain);
    EXPECT_TRUE(context.ok()) << context.status();
    return context.ok() ? *context : nullptr;
  }
  Status Append(OpenContext& context, uint32_t first, uint32_t pages) {
    const uint32_t p = spec_.page_tokens;
    return context
        .Append(first, TestTokens(pages * p, 100 + static_cast<TokenId>(first * p)),
                TestPages(spec_, first, pages))
        .status();
  }
  Status AppendLayers(OpenContext& context, uint32_t pages, const std::vector<uint32_t>& layers) {
    return context
        .AppendLayers(0, TestTokens(pages * spec_.page_tokens), layers,
                      TestLayers(spec_, 0, pages, layers))
        .status();
  }
  /// A sealed chain: a whole segment, and a short one of two whole pages.
  ContextViewPtr Sealed() {
    const auto context = Open();
    EXPECT_TRUE(Append(*context, 0, spec_.segment_pages + 2).ok());
    auto view = context->Seal({}, {}, Durability::kPersisted);
    EXPECT_TRUE(view.ok()) << view.status();
    return *view;
  }
  /// Flips a bit of a page of the context's tail.
  static void FlipTail(const OpenContext& context, size_t page) {
    FlipBit(std::span(context.view()->tail[page]->units));
  }

  quire::testing::TempDir dir_;
  const KvSpec spec_ = TestSpec();
  std::unique_ptr<PageStoreImpl> store_;
};

TEST_F(OpenContextDamageTest, Promise2AFlippedUnitIsNotCopiedIntoAContinuation) {
  const ContextViewPtr chain = Sealed();
  FlipBit(*store_, kDefaultTenant, {chain->keys->back(), 1, 3});
  const auto context = Open(chain);
  ASSERT_NE(context, nullptr);
  const ContextViewPtr view = context->view();
  ASSERT_EQ(view->tail.size(), 2u);
  for (uint32_t page = 0; page < 2; ++page) {
    for (uint32_t head = 0; head < spec_.num_kv_heads; ++head) {
      const uint32_t number = spec_.segment_pages + page;
      const auto unit = TailUnitOf(*view, {1, number, head}).Verify();
      ASSERT_TRUE(unit.has_value());
      EXPECT_TRUE(quire::testing::SameBytes(unit->bytes(), TestUnit(spec_, number, 1, head, 4)))
          << page << " " << head;
    }
  }
  EXPECT_EQ(CountersOf(*store_)["dram_extents_mended"], 1u);
}

TEST_F(OpenContextDamageTest, Promise2ReSendingIsComparedWithWhatWasPutAndNotWithDamage) {
  const ContextViewPtr chain = Sealed();
  const auto context = Open(chain);
  FlipBit(*store_, kDefaultTenant, {chain->keys->front(), 0, 0});
  const Status same = Append(*context, 0, 1);
  EXPECT_TRUE(same.ok()) << same;
}

TEST_F(OpenContextDamageTest, Promise2APageThatFlippedSinceItArrivedIsNotStored) {
  const auto context = Open();
  ASSERT_TRUE(Append(*context, 0, spec_.segment_pages - 1).ok());
  FlipTail(*context, 1);
  const Status refused = Append(*context, spec_.segment_pages - 1, 1);
  EXPECT_EQ(refused.code(), StatusCode::kDataLoss) << refused;
  EXPECT_EQ(CountersOf(*store_)["segments"], 0u);
  EXPECT_EQ(context->Seal({}, {}, Durability::kPersisted).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(CountersOf(*store_)["segments"], 0u);
}

TEST_F(OpenContextDamageTest, TheScrubFindsADamagedPageOfAnOpenContextOnce) {
  ContextTable table(
      {.store = store_.get(), .ops = &kernels::CpuKernels(), .clock = &SystemClock()});
  const auto opened = table.Open(kDefaultTenant, spec_, nullptr);
  ASSERT_TRUE(opened.ok()) << opened.status();
  ASSERT_TRUE(Append(*opened->context, 0, 2).ok());
  Scrubber scrubber(std::make_unique<TailScrub>(&table), {.clock = &SystemClock()});
  const auto count = [&](const std::string& what) {
    return MetricValuesOf(scrubber).at("scrub_" + what + "{kind=\"open_pages\"}");
  };
  ASSERT_TRUE(scrubber.RunRound().ok());
  EXPECT_EQ(count("checked"), 2u * spec_.num_layers * spec_.num_kv_heads);
  EXPECT_EQ(count("damaged"), 0u);
  FlipTail(*opened->context, 1);
  ASSERT_TRUE(scrubber.RunRound().ok());
  ASSERT_TRUE(scrubber.RunRound().ok());
  EXPECT_EQ(count("damaged"), 1u);
  EXPECT_TRUE(table.Drop(kDefaultTenant, opened->id));
  ASSERT_TRUE(scrubber.RunRound().ok());
}

TEST_F(OpenContextDamageTest, TheScrubFindsADamagedUnitOfAPageOfWhichSomeLayersHaveCome) {
  ContextTable table(
      {.store = store_.get(), .ops = &kernels::CpuKernels(), .clock = &SystemClock()});
  const auto opened = table.Open(kDefaultTenant, spec_, nullptr);
  ASSERT_TRUE(opened.ok()) << opened.status();
  OpenContext& context = *opened->context;
  const uint32_t pages = 2;
  ASSERT_TRUE(AppendLayers(context, pages, {1}).ok());
  Scrubber scrubber(std::make_unique<TailScrub>(&table), {.clock = &SystemClock()});
  const auto count = [&](const std::string& what) {
    return MetricValuesOf(scrubber).at("scrub_" + what + "{kind=\"open_pages\"}");
  };
  ASSERT_TRUE(scrubber.RunRound().ok());
  EXPECT_EQ(count("checked"), uint64_t{pages} * spec_.num_kv_heads) << "of the layer that has come";
  EXPECT_EQ(count("damaged"), 0u);
  const auto arriving = context.ArrivingPages();
  ASSERT_EQ(arriving.size(), pages);
  const uint64_t row_bytes = ExtentBytes(spec_, 1);
  FlipBit(std::span(arriving[1]->units).subspan(row_bytes, row_bytes));
  ASSERT_TRUE(scrubber.RunRound().ok());
  EXPECT_EQ(count("damaged"), 1u);
  ASSERT_TRUE(AppendLayers(context, pages, {0, 2}).ok());
  ASSERT_TRUE(context.ArrivingPages().empty());
  ASSERT_TRUE(scrubber.RunRound().ok());
  EXPECT_EQ(count("damaged"), 1u) << "it is the same page, whole by now";
  EXPECT_EQ(context.Seal({}, {}, Durability::kPersisted).status().code(), StatusCode::kDataLoss);
}

TEST_F(OpenContextDamageTest, DigestsThatFlippedSinceTheyWereMadeAreMadeAnew) {
  const auto context = Open();
  ASSERT_TRUE(Append(*context, 0, 2).ok());
  const ContextViewPtr view = context->view();
  const auto read = [&] {
    Payload payload;
    const auto blocks = ReadDigests(*store_, kDefaultTenant, *view, {1, 0, 2});
    EXPECT_TRUE(blocks.ok()) << blocks.status();
    blocks->AppendTo(0, 2, &payload);
    std::vector<std::byte> bytes(payload.size_bytes());
    payload.CopyTo(bytes.data());
    return bytes;
  };
  const std::vector<std::byte> right = read();
  const uint64_t bytes = PageDigestBytes(spec_);
  FlipBit(std::span(view->tail[1]->digests).subspan(bytes, bytes));
  EXPECT_EQ(read(), right);
}

TEST_F(OpenContextDamageTest, Promise2NothingIsMadeOfAPageThatFlippedSinceItArrived) {
  const auto context = Open();
  ASSERT_TRUE(Append(*context, 0, 2).ok());
  FlipTail(*context, 0);
  const ContextViewPtr view = context->view();
  uint32_t lost = 0;
  for (uint32_t layer = 0; layer < spec_.num_layers; ++layer) {
    const auto digests = ReadDigests(*store_, kDefaultTenant, *view,
                                     {layer, 0, 2, kernels::DigestKind::kCentreRadius});
    if (digests.status().code() == StatusCode::kDataLoss) ++lost;
  }
  EXPECT_EQ(lost, 1u) << "of the layer with the flipped bit";
  std::vector<UnitRef> units;
  for (uint32_t layer = 0; layer < spec_.num_layers; ++layer) {
    for (uint32_t head = 0; head < spec_.num_kv_heads; ++head) units.push_back({layer, 0, head});
  }
  std::vector<VerifiedBytes> read;
  EXPECT_EQ(ReadVerified(*store_, kDefaultTenant, *view, units, &read).code(),
            StatusCode::kDataLoss);
  std::vector<ReportedRef> reported;
  for (const UnitRef& unit : units) reported.push_back({unit, 1});
  EXPECT_EQ(Recheck(*store_, kDefaultTenant, *view, reported).code(), StatusCode::kDataLoss);
  EXPECT_EQ(Create(view).status().code(), StatusCode::kDataLoss) << "and it is not continued";
}

}  // namespace
}  // namespace quire::kvserver::testing
