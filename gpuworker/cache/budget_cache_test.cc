// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/cache/budget_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "common/base/random.h"
#include "quire/layout.h"

namespace quire::worker {
namespace {

constexpr uint32_t kTokens = 40;  // Ten pages of four.

struct Kind {
  DType dtype;
  bool latent = false;  ///< Pages of latents.
};

KvSpec TestSpec(const Kind& kind) {
  KvSpec spec;
  spec.model = "test";
  spec.dtype = kind.dtype;
  spec.num_layers = 1;
  spec.num_query_heads = 4;
  spec.num_kv_heads = 2;
  spec.head_dim = 8;
  spec.page_tokens = 4;
  spec.segment_pages = 2;
  if (!kind.latent) return spec;
  spec.attention = AttentionKind::kMla;
  spec.num_kv_heads = 1;
  spec.head_dim = 0;
  spec.latent_dim = 9;
  spec.latent_rope_dim = 4;
  return spec;
}

std::vector<float> RandomFloats(size_t count, uint64_t seed) {
  SeededRandom random(seed);
  std::vector<float> values(count);
  // Multiples of 1/8 are exact in every dtype, so bytes can be compared after a round trip.
  for (float& value : values) value = std::round(random.Normal() * 8) / 8;
  return values;
}

Payload ToPayload(std::vector<std::byte> bytes) {
  Payload payload;
  payload.Append(std::move(bytes));
  return payload;
}

class BudgetCacheTest : public ::testing::TestWithParam<Kind> {
 protected:
  BudgetCacheTest()
      : spec_(TestSpec(GetParam())),
        k_(RandomFloats(size_t{kTokens} * spec_.num_kv_heads * spec_.key_dim(), 1)),
        v_(RandomFloats(k_.size(), 2)),
        q_(RandomFloats(size_t{spec_.num_query_heads} * spec_.key_dim(), 3)) {}

  std::unique_ptr<BudgetCache> Make(const CacheLayout& layout) {
    auto cache = BudgetCache::Create(spec_, &CpuDevice(), std::vector<CacheLayout>{layout});
    EXPECT_TRUE(cache.ok()) << cache.status();
    return std::move(cache).value();
  }
  // The cache that holds all tokens: what every other one is compared with.
  std::unique_ptr<BudgetCache> MakeFull(uint32_t tokens = kTokens) {
    auto cache = Make({.everything = true});
    EXPECT_EQ(cache->AppendTokens(0, k_.data(), values(), tokens), OkStatus());
    return cache;
  }
  const float* values() const { return spec_.has_values() ? v_.data() : nullptr; }
  size_t OutSize() const { return size_t{spec_.num_query_heads} * spec_.value_dim(); }
  size_t PageBytes() const { return spec_.num_kv_heads * UnitBytes(spec_); }
  std::vector<std::byte> Export(const BudgetCache& cache, uint32_t page, uint32_t rows) {
    std::vector<std::byte> units(PageBytes());
    EXPECT_EQ(cache.ExportPage(0, page, rows, units.data()), OkStatus());
    return units;
  }
  std::vector<float> Attend(const BudgetCache& cache) {
    std::vector<float> out(OutSize());
    EXPECT_EQ(cache.Attend(0, q_.data(), out.data()), OkStatus());
    return out;
  }
  static void ExpectNear(const std::vector<float>& a, const std::vector<float>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 2e-4) << i;
  }

  const KvSpec spec_;
  const std::vector<float> k_;
  const std::vector<float> v_;
  const std::vector<float> q_;
};

TEST_P(BudgetCacheTest, ExportThenFillRestoresThePages) {
  const auto full = MakeFull();
  auto copy = Make({.sink_pages = 1, .window_pages = 2, .selectable_pages = 1});
  ASSERT_EQ(copy->StartAt(kTokens), OkStatus());
  for (uint32_t page : {0u, 8u, 9u}) {
    const std::vector<std::byte> units = Export(*full, page, spec_.page_tokens);
    ASSERT_EQ(copy->FillFixed(0, std::vector<uint32_t>{page}, ToPayload(units)), OkStatus());
    EXPECT_EQ(Export(*copy, page, spec_.page_tokens), units) << page;
  }
  EXPECT_EQ(copy->FillFixed(0, std::vector<uint32_t>{5}, Payload()).code(),
            StatusCode::kInvalidArgument);
}

TEST_P(BudgetCacheTest, FixedPagesAreCopiedFromWhoHasThem) {
  const auto full = MakeFull();
  auto part = Make({.sink_pages = 2, .window_pages = 2, .selectable_pages = 1});
  ASSERT_EQ(part->StartAt(kTokens), OkStatus());
  const std::vector<uint32_t> fixed = {0, 1, 8, 9};
  const auto from_full = part->CopyFixed(0, fixed, *full);
  ASSERT_TRUE(from_full.ok()) << from_full.status();
  EXPECT_THAT(*from_full, ::testing::IsEmpty());
  for (const uint32_t page : fixed) {
    EXPECT_EQ(Export(*part, page, spec_.page_tokens), Export(*full, page, spec_.page_tokens));
  }
  // A window that has moved on has sinks only; a layer that holds everything has slots for all.
  auto later = Make({.sink_pages = 2, .window_pages = 2, .selectable_pages = 1});
  ASSERT_EQ(later->StartAt(kTokens - 12), OkStatus());  // Pages 5 and 6 are its window.
  const auto from_part = later->CopyFixed(0, std::vector<uint32_t>{0, 1, 5, 6}, *part);
  ASSERT_TRUE(from_part.ok()) << from_part.status();
  EXPECT_THAT(*from_part, ::testing::ElementsAre(5, 6));
  EXPECT_EQ(Export(*later, 1, spec_.page_tokens), Export(*full, 1, spec_.page_tokens));
  EXPECT_EQ(part->CopyFixed(0, std::vector<uint32_t>{5}, *full).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_P(BudgetCacheTest, AShortPageIsExportedWithZeroRows) {
  const auto full = MakeFull(kTokens - 3);
  const std::vector<std::byte> units = Export(*full, 9, 1);
  for (uint32_t row = 1; row < spec_.page_tokens; ++row) {
    for (uint32_t c = 0; c < spec_.key_dim(); ++c) {
      EXPECT_EQ(LoadElement(units.data(), row * spec_.key_dim() + c, spec_.dtype), 0.0f);
    }
  }
}

// Promise 5: attention over a recall of everything equals dense attention.
TEST_P(BudgetCacheTest, RecallOfEverythingEqualsDenseAttention) {
  const auto full = MakeFull();
  std::vector<float> dense(OutSize());
  ASSERT_EQ(full->AttendDense(0, q_.data(), 1, dense.data()), OkStatus());
  ExpectNear(Attend(*full), dense);

  auto cache = Make({.sink_pages = 1, .window_pages = 2, .selectable_pages = 7});
  ASSERT_EQ(cache->AppendTokens(0, k_.data(), values(), kTokens), OkStatus());
  ASSERT_EQ(full->StartAt(kTokens), OkStatus());
  std::vector<uint32_t> pages;
  std::vector<SlotPlacement> placements;
  std::vector<std::byte> units;
  for (uint32_t page = 1; page < 8; ++page) pages.push_back(page);
  for (uint32_t head = 0; head < spec_.num_kv_heads; ++head) {
    for (uint32_t i = 0; i < pages.size(); ++i) {
      // Each head has another order of pages in the shared slots.
      const uint32_t page = pages[(i + 3 * head) % pages.size()];
      placements.push_back({.head = head, .index = i, .generation = 1, .page = page});
      const std::vector<std::byte> both = Export(*full, page, spec_.page_tokens);
      const auto unit = both.begin() + static_cast<ptrdiff_t>(head * UnitBytes(spec_));
      units.insert(units.end(), unit, unit + static_cast<ptrdiff_t>(UnitBytes(spec_)));
    }
  }
  ASSERT_EQ(cache->PlaceUnits(0, placements, ToPayload(units)), OkStatus());
  for (uint32_t head = 0; head < spec_.num_kv_heads; ++head) {
    ASSERT_EQ(cache->table(0).Activate(head, pages), OkStatus());
  }
  ExpectNear(Attend(*cache), dense);
}

TEST_P(BudgetCacheTest, AppendedTokensReachTheWindowRing) {
  auto ring = Make({.window_pages = 3});
  ASSERT_EQ(ring->AppendTokens(0, k_.data(), values(), kTokens - 1), OkStatus());
  const auto full = MakeFull(kTokens - 1);
  for (uint32_t page : {7u, 8u}) {
    EXPECT_EQ(Export(*ring, page, spec_.page_tokens), Export(*full, page, spec_.page_tokens));
  }
  EXPECT_EQ(Export(*ring, 9, 3), Export(*full, 9, 3));
}

TEST_P(BudgetCacheTest, APayloadOfTheWrongSizeIsRefused) {
  auto cache = Make({.window_pages = 2, .selectable_pages = 2});
  ASSERT_EQ(cache->StartAt(kTokens), OkStatus());
  const std::vector<SlotPlacement> one = {{.head = 0, .index = 0, .generation = 1, .page = 1}};
  EXPECT_EQ(cache->PlaceUnits(0, one, ToPayload(std::vector<std::byte>(3))).code(),
            StatusCode::kDataLoss);
  EXPECT_EQ(
      cache->PlaceUnits(0, one, ToPayload(std::vector<std::byte>(2 * UnitBytes(spec_)))).code(),
      StatusCode::kDataLoss);
  EXPECT_THAT(cache->table(0).ActivePages(0), ::testing::IsEmpty());
}

TEST_P(BudgetCacheTest, UnitsCutAcrossSlicesArriveWhole) {
  const auto full = MakeFull();
  const std::vector<std::byte> units = Export(*full, 9, spec_.page_tokens);
  Payload cut;
  cut.Append(Slice{std::span(units).first(33), nullptr});
  cut.Append(Slice{std::span(units).subspan(33), nullptr});
  auto copy = Make({.window_pages = 2});
  ASSERT_EQ(copy->StartAt(kTokens), OkStatus());
  ASSERT_EQ(copy->FillFixed(0, std::vector<uint32_t>{9}, cut), OkStatus());
  EXPECT_EQ(Export(*copy, 9, spec_.page_tokens), units);
}

INSTANTIATE_TEST_SUITE_P(Kinds, BudgetCacheTest,
                         ::testing::Values(Kind{DType::kF32}, Kind{DType::kF16}, Kind{DType::kBF16},
                                           Kind{DType::kF32, true}, Kind{DType::kBF16, true}),
                         [](const auto& info) {
                           return std::string(info.param.latent ? "latent_" : "") +
                                  Name(info.param.dtype);
                         });

TEST(BudgetCacheLatentTest, OnePoolHoldsWhatIsKeyAndValue) {
  const KvSpec spec = TestSpec({DType::kF16, true});
  const std::vector<CacheLayout> layouts = {{.window_pages = 2, .selectable_pages = 3}};
  const auto cache = BudgetCache::Create(spec, &CpuDevice(), layouts);
  ASSERT_TRUE(cache.ok()) << cache.status();
  EXPECT_EQ((*cache)->pool_bytes(), 5 * UnitBytes(spec));
}

}  // namespace
}  // namespace quire::worker
