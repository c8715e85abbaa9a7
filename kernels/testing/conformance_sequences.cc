// SPDX-License-Identifier: Apache-2.0
//
// One launch over several sequences gives each what a launch of its own gives it. The other files
// of the suite compare ops with the reference.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "kernels/testing/op_conformance.h"

namespace quire::kernels::testing {
namespace {

constexpr int64_t kSequences = 3;
constexpr Heads kShape{8, 2, 64};
/// Pages of each sequence; the second has nothing to choose from.
constexpr int64_t kPages[kSequences] = {37, 0, 700};
constexpr int64_t kMostPages = 700;

/// Offsets of arrays of `sizes` elements that follow each other; the last is their end.
std::vector<int64_t> Offsets(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> at(sizes.size() + 1, 0);
  std::partial_sum(sizes.begin(), sizes.end(), at.begin() + 1);
  return at;
}
std::vector<int64_t> OffsetsOfPages(int64_t elements) {
  std::vector<int64_t> sizes;
  for (const int64_t pages : kPages) sizes.push_back(pages * elements);
  return Offsets(sizes);
}

TEST_P(OpConformance, NarrowWritesRowsOfAnyAddress) {
  QUIRE_REQUIRE_OP(narrow);
  constexpr int64_t kRow = 67;
  for (const DType dtype : kAllDTypes) {
    SCOPED_TRACE(Name(dtype));
    const auto row_bytes = static_cast<size_t>(kRow * ElementBytes(dtype));
    Tensor<float> from(bench_.device(), bench_.Floats(5 * kRow));
    Tensor<uint8_t> to(bench_.device(), std::vector<uint8_t>(5 * row_bytes, 0xa5));
    Tensor<uint8_t> want(bench_.device(), std::vector<uint8_t>(5 * row_bytes, 0xa5));
    const std::vector<std::pair<int, int>> moves = {{4, 0}, {1, 3}, {0, 2}};
    std::vector<NarrowRow> list;
    for (const auto& [source, target] : moves) {
      list.push_back({from.data() + source * kRow, to.data() + target * row_bytes});
      ASSERT_EQ(table().narrow({.x = from.data() + source * kRow,
                                .y = want.data() + target * row_bytes,
                                .n = kRow,
                                .dtype = dtype,
                                .stream = bench_.device().stream()}),
                OpStatus::kOk);
    }
    Tensor<NarrowRow> rows(bench_.device(), list);
    ASSERT_EQ(table().narrow({.n = kRow,
                              .rows = std::ssize(list),
                              .list = rows.data(),
                              .dtype = dtype,
                              .stream = bench_.device().stream()}),
              OpStatus::kOk);
    EXPECT_EQ(to.Fetch(), want.Fetch());
  }
}

TEST_P(OpConformance, CorrectHeadsComparesQueriesOfAnyAddress) {
  QUIRE_REQUIRE_OP(correct_heads);
  const int64_t heads = kSequences * kShape.n_kv;
  const int64_t row = kShape.n_q / kShape.n_kv * kShape.d;
  const std::vector<float> before = bench_.Floats(heads * row);
  std::vector<float> now = before;
  const std::vector<float> noise = bench_.Floats(heads * row);
  for (size_t i = 0; i < now.size(); ++i) now[i] += noise[i];
  Tensor<float> q(bench_.device(), now), old(bench_.device(), before);
  Tensor<float> cosines(bench_.device(), std::vector<float>(heads));
  Tensor<float> alone(bench_.device(), std::vector<float>(heads));
  Tensor<int32_t> turned(bench_.device(), std::vector<int32_t>(heads + 1, -1));
  CorrectHeadsArgs args{.corrected = turned.data() + 1,
                        .n_corrected = turned.data(),
                        .batch = kSequences,
                        .n_q = kShape.n_q,
                        .n_kv = kShape.n_kv,
                        .head_dim = kShape.d,
                        .stream = bench_.device().stream()};
  args.q = q.data();
  args.before = old.data();
  args.cosines = alone.data();
  ASSERT_EQ(table().correct_heads(args), OpStatus::kOk);
  const std::vector<float> want = alone.Fetch();
  // Head 2 has no earlier query, head 3 turned, head 1 is compared with that of head 0.
  std::vector<HeadQueries> list;
  for (int64_t g = 0; g < heads; ++g) {
    list.push_back({q.data() + g * row, old.data() + g * row, -2.0f});
  }
  list[2].before = nullptr;
  list[3].tau = 2.0f;
  list[1] = {q.data(), old.data(), -2.0f};
  Tensor<HeadQueries> queries(bench_.device(), list);
  args.q = args.before = nullptr;
  args.cosines = cosines.data();
  args.heads = queries.data();
  ASSERT_EQ(table().correct_heads(args), OpStatus::kOk);
  std::vector<float> expected = want;
  expected[1] = want[0];
  expected[2] = 0;
  EXPECT_EQ(cosines.Fetch(), expected);
  const std::vector<int32_t> found = turned.Fetch();
  ASSERT_EQ(found[0], 2);
  EXPECT_EQ((std::vector<int32_t>{found[1], found[2]}), (std::vector<int32_t>{2, 3}));
}

TEST_P(OpConformance, ScoreOfJobsIsThatOfEach) {
  QUIRE_REQUIRE_OP(score);
  const int64_t page = kShape.n_kv * DigestElements(DigestKind::kMean, kShape.d);
  const std::vector<int64_t> digests_at = OffsetsOfPages(page);
  const std::vector<int64_t> scores_at = OffsetsOfPages(kShape.n_q);
  Tensor<float> q(bench_.device(), bench_.Floats(kSequences * kShape.n_q * kShape.d));
  Tensor<float> digests(bench_.device(), bench_.Floats(digests_at.back()));
  Tensor<float> scores(bench_.device(), std::vector<float>(scores_at.back()));
  Tensor<float> want(bench_.device(), std::vector<float>(scores_at.back()));
  ScoreArgs args{.n_pages = kMostPages,
                 .n_q = kShape.n_q,
                 .n_kv = kShape.n_kv,
                 .head_dim = kShape.d,
                 .scale = 0.5f,
                 .dtype = DType::kF32,
                 .kind = DigestKind::kMean,
                 .stream = bench_.device().stream()};
  std::vector<ScoreJob> list;
  for (int64_t i = 0; i < kSequences; ++i) {
    const int64_t skipped = kPages[i] > 0 ? 2 : 0;
    list.push_back({.q = q.data() + i * kShape.n_q * kShape.d,
                    .digests = digests.data() + digests_at[i],
                    .scores = scores.data() + scores_at[i],
                    .score_stride = kPages[i],
                    .first_page = skipped,
                    .n_pages = kPages[i] - skipped});
    ScoreArgs alone = args;
    alone.q = list[i].q;
    alone.digests = list[i].digests;
    alone.scores = want.data() + scores_at[i];
    alone.score_stride = kPages[i];
    alone.first_page = skipped;
    alone.n_pages = kPages[i] - skipped;
    ASSERT_EQ(table().score(alone), OpStatus::kOk);
  }
  Tensor<ScoreJob> jobs(bench_.device(), list);
  args.jobs = jobs.data();
  args.n_jobs = kSequences;
  ASSERT_EQ(table().score(args), OpStatus::kOk);
  EXPECT_EQ(scores.Fetch(), want.Fetch());
  args.n_jobs = 0;
  EXPECT_EQ(table().score(args), OpStatus::kOk);
  args.n_jobs = -1;
  EXPECT_EQ(table().score(args), OpStatus::kBadShape);
}

TEST_P(OpConformance, PoolOfJobsIsThatOfEach) {
  QUIRE_REQUIRE_OP(pool);
  const std::vector<int64_t> scores_at = OffsetsOfPages(kShape.n_q);
  const std::vector<int64_t> pooled_at = OffsetsOfPages(kShape.n_kv);
  for (const Pooling pooling : {Pooling::kAvgSM, Pooling::kMaxS}) {
    SCOPED_TRACE(static_cast<int>(pooling));
    Tensor<float> scores(bench_.device(), bench_.Floats(scores_at.back()));
    Tensor<float> pooled(bench_.device(), std::vector<float>(pooled_at.back()));
    Tensor<float> want(bench_.device(), std::vector<float>(pooled_at.back()));
    PoolArgs args{.n_q = kShape.n_q,
                  .n_kv = kShape.n_kv,
                  .n_pages = kMostPages,
                  .pooling = pooling,
                  .stream = bench_.device().stream()};
    std::vector<PoolJob> list;
    for (int64_t i = 0; i < kSequences; ++i) {
      list.push_back({scores.data() + scores_at[i], pooled.data() + pooled_at[i], kPages[i]});
      PoolArgs alone = args;
      alone.scores = list[i].scores;
      alone.pooled = want.data() + pooled_at[i];
      alone.n_pages = kPages[i];
      ASSERT_EQ(table().pool(alone), OpStatus::kOk);
    }
    Tensor<PoolJob> jobs(bench_.device(), list);
    args.jobs = jobs.data();
    args.n_jobs = kSequences;
    ASSERT_EQ(table().pool(args), OpStatus::kOk);
    EXPECT_EQ(pooled.Fetch(), want.Fetch());
  }
}

TEST_P(OpConformance, TopKOfJobsIsThatOfEach) {
  QUIRE_REQUIRE_OP(topk);
  constexpr int64_t kRows = 2;
  const std::vector<int64_t> scores_at = OffsetsOfPages(kRows);
  std::vector<float> values = bench_.Floats(scores_at.back());
  values[3] = std::numeric_limits<float>::quiet_NaN();
  Tensor<float> scores(bench_.device(), values);
  constexpr int64_t kFound = 50;  // Most of a row, and its count of NaN.
  const std::vector<int32_t> none(kSequences * kRows * kFound, -1);
  Tensor<int32_t> found(bench_.device(), none);
  Tensor<int32_t> want(bench_.device(), none);
  TopKArgs args{.n_rows = kRows, .stream = bench_.device().stream()};
  std::vector<TopKJob> list;
  for (int64_t i = 0; i < kSequences; ++i) {
    const int64_t at = i * kRows * kFound;
    const int64_t counts = (kFound - 1) * kRows;
    list.push_back({.scores = scores.data() + scores_at[i],
                    .indices = found.data() + at,
                    .nan_counts = found.data() + at + counts,
                    .n_pages = kPages[i],
                    .k = 40 + i,  // All pages of the first sequence.
                    .index_offset = static_cast<int32_t>(i)});
    TopKArgs alone = args;
    alone.scores = list[i].scores;
    alone.indices = want.data() + at;
    alone.nan_counts = want.data() + at + counts;
    alone.n_pages = kPages[i];
    alone.k = list[i].k;
    alone.index_offset = list[i].index_offset;
    ASSERT_EQ(table().topk(alone), OpStatus::kOk);
  }
  Tensor<TopKJob> jobs(bench_.device(), list);
  args.jobs = jobs.data();
  args.n_jobs = kSequences;
  ASSERT_EQ(table().topk(args), OpStatus::kOk);
  EXPECT_EQ(found.Fetch(), want.Fetch());
}

TEST_P(OpConformance, DigestOfJobsIsThatOfEach) {
  QUIRE_REQUIRE_OP(digest);
  constexpr int64_t kUnits = 2, kPageTokens = 5, kDim = 24;
  constexpr int64_t kUnit = 2 * kPageTokens * kDim;
  for (const DigestKind kind : {DigestKind::kMinMax, DigestKind::kMean}) {
    const int64_t elements = kUnits * DigestElements(kind, kDim);
    Tensor<float> units(bench_.device(), bench_.Floats(kSequences * kUnits * kUnit));
    Tensor<float> digests(bench_.device(), std::vector<float>(kSequences * elements));
    Tensor<float> want(bench_.device(), std::vector<float>(kSequences * elements));
    DigestArgs args{.unit_stride = kUnit,
                    .n_units = kUnits,
                    .page_tokens = kPageTokens,
                    .head_dim = kDim,
                    .dtype = DType::kF32,
                    .out_dtype = DType::kF32,
                    .kind = kind,
                    .stream = bench_.device().stream()};
    std::vector<DigestJob> list;
    for (int64_t i = 0; i < kSequences; ++i) {
      const int64_t to = kSequences - 1 - i;  // In another order.
      list.push_back({units.data() + i * kUnits * kUnit, digests.data() + to * elements});
      DigestArgs alone = args;
      alone.units = list[i].units;
      alone.digests = want.data() + to * elements;
      ASSERT_EQ(table().digest(alone), OpStatus::kOk);
    }
    Tensor<DigestJob> jobs(bench_.device(), list);
    args.jobs = jobs.data();
    args.n_jobs = kSequences;
    ASSERT_EQ(table().digest(args), OpStatus::kOk);
    EXPECT_EQ(digests.Fetch(), want.Fetch());
  }
}

// Pages out of pools and back into others.
TEST_P(OpConformance, PagesOfAnyAddressAreMovedAsAlone) {
  QUIRE_REQUIRE_OP(nhd_to_hnd);
  QUIRE_REQUIRE_OP(hnd_to_nhd);
  constexpr int64_t kPageTokens = 5, kHeads = 3, kSlots = 4;
  for (const int64_t d : {16, 18, 33}) {
    SCOPED_TRACE(d);
    const int64_t slot = kPageTokens * kHeads * d, unit = 2 * kPageTokens * d;
    // Keys, then values.
    const int64_t pool = kSlots * slot;
    std::vector<uint16_t> numbers(2 * pool);
    std::iota(numbers.begin(), numbers.end(), uint16_t{1});
    Tensor<uint16_t> kv(bench_.device(), numbers);
    Tensor<uint16_t> units(bench_.device(), std::vector<uint16_t>(2 * kHeads * unit));
    Tensor<uint16_t> want(bench_.device(), std::vector<uint16_t>(2 * kHeads * unit));
    const std::vector<int32_t> listed = {3, 1};
    Tensor<int32_t> slots(bench_.device(), listed);
    NhdToHndArgs args{.k_pool = kv.data(),
                      .v_pool = kv.data() + pool,
                      .slots = slots.data(),
                      .units = want.data(),
                      .num_slots = kSlots,
                      .n_pages = 2,
                      .page_tokens = kPageTokens,
                      .n_kv = kHeads,
                      .head_dim = d,
                      .last_page_rows = kPageTokens,
                      .dtype = DType::kF16,
                      .stream = bench_.device().stream()};
    ASSERT_EQ(table().nhd_to_hnd(args), OpStatus::kOk);
    std::vector<PageAddress> list;
    for (int64_t i = 0; i < 2; ++i) {
      const uint16_t* from = kv.data() + listed[i] * slot;
      list.push_back({from, from + pool, units.data() + i * kHeads * unit});
    }
    Tensor<PageAddress> pages(bench_.device(), list);
    args.pages = pages.data();
    ASSERT_EQ(table().nhd_to_hnd(args), OpStatus::kOk);
    EXPECT_EQ(units.Fetch(), want.Fetch());
    args.last_page_rows = 1;
    EXPECT_EQ(table().nhd_to_hnd(args), OpStatus::kBadShape);

    Tensor<uint16_t> moved(bench_.device(), std::vector<uint16_t>(2 * pool));
    Tensor<uint16_t> placed_alone(bench_.device(), std::vector<uint16_t>(2 * pool));
    const std::vector<UnitPlacement> placed = {{2, 0}, {0, 1}, {2, 2}, {1, 0}, {1, 1}, {3, 2}};
    Tensor<UnitPlacement> places(bench_.device(), placed);
    std::vector<UnitAddress> addresses;
    for (const UnitPlacement& place : placed) {
      uint16_t* const to = moved.data() + place.slot * slot + place.kv_head * d;
      addresses.push_back({to, to + pool});
    }
    Tensor<UnitAddress> to(bench_.device(), addresses);
    HndToNhdArgs back{.units = units.data(),
                      .placements = places.data(),
                      .k_pool = placed_alone.data(),
                      .v_pool = placed_alone.data() + pool,
                      .num_slots = kSlots,
                      .n_units = 6,
                      .page_tokens = kPageTokens,
                      .n_kv = kHeads,
                      .head_dim = d,
                      .dtype = DType::kF16,
                      .stream = bench_.device().stream()};
    ASSERT_EQ(table().hnd_to_nhd(back), OpStatus::kOk);
    back.addresses = to.data();
    ASSERT_EQ(table().hnd_to_nhd(back), OpStatus::kOk);
    EXPECT_EQ(moved.Fetch(), placed_alone.Fetch());
  }
}

/// Pools of kSequences, each at its own address.
struct OwnPools {
  static constexpr int64_t kPageTokens = 4, kSlots = 9;
  OwnPools(Workbench& bench, DType dtype) : args_dtype(dtype) {
    for (int64_t i = 0; i < kSequences; ++i) {
      const int64_t elements = kSlots * kPageTokens * kShape.n_kv * kShape.d;
      k.push_back(
          std::make_unique<Tensor<uint8_t>>(bench.device(), bench.Elements(elements, dtype)));
      v.push_back(
          std::make_unique<Tensor<uint8_t>>(bench.device(), bench.Elements(elements, dtype)));
      list.push_back({k.back()->data(), v.back()->data()});
    }
  }
  PagedAttentionArgs Args(Workbench& bench) const {
    return {.num_slots = kSlots,
            .page_tokens = kPageTokens,
            .n_q = kShape.n_q,
            .n_kv = kShape.n_kv,
            .head_dim = kShape.d,
            .scale = 1.0f / std::sqrt(static_cast<float>(kShape.d)),
            .dtype = args_dtype,
            .stream = bench.device().stream()};
  }
  DType args_dtype;
  std::vector<std::unique_ptr<Tensor<uint8_t>>> k, v;
  std::vector<SequencePools> list;
};

TEST_P(OpConformance, PagedAttentionOverOwnPoolsIsThatOfEach) {
  QUIRE_REQUIRE_OP(paged_attention);
  constexpr int64_t kRow = kShape.n_q * kShape.d;
  constexpr int64_t kListed = 5;
  // With hidden rows scores are capped, too.
  constexpr std::pair<DType, bool> kCases[] = {{DType::kF32, false},
                                               {DType::kF16, false},
                                               {DType::kBF16, false},
                                               {DType::kF32, true},
                                               {DType::kF16, true}};
  for (const auto& [dtype, hides] : kCases) {
    SCOPED_TRACE(Name(dtype) + std::string(hides ? ", hidden" : ""));
    const OwnPools own(bench_, dtype);
    Tensor<SequencePools> pools(bench_.device(), own.list);
    Tensor<float> q(bench_.device(), bench_.Floats(kSequences * kRow));
    Tensor<float> out(bench_.device(), std::vector<float>(kSequences * kRow));
    Tensor<float> want(bench_.device(), std::vector<float>(kSequences * kRow));
    std::vector<int32_t> listed;
    for (int64_t i = 0; i < kSequences; ++i) {
      const std::vector<int32_t> slots = bench_.Slots(kListed, OwnPools::kSlots);
      listed.insert(listed.end(), slots.begin(), slots.end());
    }
    Tensor<int32_t> slots(bench_.device(), listed);
    Tensor<int32_t> valid(
        bench_.device(), bench_.Ints(kSequences * kShape.n_kv * kListed, 1, OwnPools::kPageTokens));
    std::vector<int32_t> hidden = bench_.Ints(kSequences * kListed, 0, OwnPools::kPageTokens);
    for (int64_t i = 0; i < kSequences; ++i) hidden[i * kListed] = 0;  // Some row is used.
    Tensor<int32_t> first(bench_.device(), hidden);
    PagedAttentionArgs args = own.Args(bench_);
    args.n_slots = kListed;
    args.soft_cap = hides ? 0.5f : 0.0f;
    for (int64_t i = 0; i < kSequences; ++i) {
      PagedAttentionArgs alone = args;
      alone.q = q.data() + i * kRow;
      alone.k_pool = own.list[i].k;
      alone.v_pool = own.list[i].v;
      alone.slots = slots.data() + i * kListed;
      if (hides) alone.first_tokens = first.data() + i * kListed;
      alone.valid_tokens = valid.data() + i * kShape.n_kv * kListed;
      alone.out = want.data() + i * kRow;
      ASSERT_EQ(table().paged_attention(alone), OpStatus::kOk);
    }
    args.q = q.data();
    args.pools = pools.data();
    args.slots = slots.data();
    args.valid_tokens = valid.data();
    if (hides) args.first_tokens = first.data();
    args.out = out.data();
    args.batch = kSequences;
    ASSERT_EQ(table().paged_attention(args), OpStatus::kOk);
    EXPECT_EQ(out.Fetch(), want.Fetch());
  }
}

TEST_P(OpConformance, PagedAttentionOfTokensInOrderIsThatOfTheirSlots) {
  QUIRE_REQUIRE_OP(paged_attention);
  constexpr int64_t kRow = kShape.n_q * kShape.d;
  const std::vector<int32_t> lengths = {1, 4 * 7 + 3, 4 * 9};
  const OwnPools own(bench_, DType::kF16);
  Tensor<SequencePools> pools(bench_.device(), own.list);
  Tensor<int32_t> tokens(bench_.device(), lengths);
  Tensor<float> q(bench_.device(), bench_.Floats(kSequences * kRow));
  Tensor<float> out(bench_.device(), std::vector<float>(kSequences * kRow));
  Tensor<float> want(bench_.device(), std::vector<float>(kSequences * kRow));
  std::vector<int32_t> in_order(OwnPools::kSlots);
  std::iota(in_order.begin(), in_order.end(), 0);
  Tensor<int32_t> slots(bench_.device(), in_order);
  PagedAttentionArgs args = own.Args(bench_);
  args.n_slots = OwnPools::kSlots;
  args.soft_cap = 0.5f;
  for (int64_t i = 0; i < kSequences; ++i) {
    std::vector<int32_t> rows;
    for (int64_t g = 0; g < kShape.n_kv; ++g) {
      for (int32_t s = 0; s < OwnPools::kSlots; ++s) {
        rows.push_back(std::clamp(lengths[i] - s * 4, 0, 4));
      }
    }
    Tensor<int32_t> valid(bench_.device(), rows);
    PagedAttentionArgs alone = args;
    alone.q = q.data() + i * kRow;
    alone.k_pool = own.list[i].k;
    alone.v_pool = own.list[i].v;
    alone.slots = slots.data();
    alone.valid_tokens = valid.data();
    alone.out = want.data() + i * kRow;
    ASSERT_EQ(table().paged_attention(alone), OpStatus::kOk);
    (void)want.Fetch();  // The list goes away.
  }
  args.q = q.data();
  args.pools = pools.data();
  args.tokens = tokens.data();
  args.out = out.data();
  args.batch = kSequences;
  ASSERT_EQ(table().paged_attention(args), OpStatus::kOk);
  EXPECT_EQ(out.Fetch(), want.Fetch());
  args.first_tokens = slots.data();
  EXPECT_EQ(table().paged_attention(args), OpStatus::kBadShape);
  args.first_tokens = nullptr;
  args.fp8_pools = true;
  EXPECT_EQ(table().paged_attention(args), OpStatus::kBadShape);
}

}  // namespace
}  // namespace quire::kernels::testing
