// SPDX-License-Identifier: Apache-2.0
//
// CpuReference() against numbers computed by hand, not against another program.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/softmax.h"

namespace quire::kernels {
namespace {

const KernelTable& ref = CpuReference();

// Pages A, B, C of two keys each, and queries q1 and q2 of one group. The softmax makes heads with
// different score ranges comparable, so kAvgS and kAvgSM select differently.
class WorkedSelection : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(ref.digest({.units = keys_.data(),
                          .unit_stride = 4,
                          .digests = digests_.data(),
                          .n_units = 3,
                          .page_tokens = 2,
                          .head_dim = 2,
                          .dtype = DType::kF32,
                          .out_dtype = DType::kF32}),
              OpStatus::kOk);
    ASSERT_EQ(ref.score({.q = q_.data(),
                         .digests = digests_.data(),
                         .scores = scores_.data(),
                         .n_pages = 3,
                         .n_q = 2,
                         .n_kv = 1,
                         .head_dim = 2,
                         .dtype = DType::kF32}),
              OpStatus::kOk);
  }
  std::vector<float> Pooled(Pooling pooling) {
    std::vector<float> pooled(3);
    EXPECT_EQ(ref.pool({.scores = scores_.data(),
                        .pooled = pooled.data(),
                        .n_q = 2,
                        .n_kv = 1,
                        .n_pages = 3,
                        .head_dim = 2,
                        .pooling = pooling}),
              OpStatus::kOk);
    return pooled;
  }
  std::vector<int32_t> BestTwo(const std::vector<float>& weights) {
    std::vector<int32_t> best(2);
    EXPECT_EQ(
        ref.topk(
            {.scores = weights.data(), .indices = best.data(), .n_rows = 1, .n_pages = 3, .k = 2}),
        OpStatus::kOk);
    return best;
  }

  const std::vector<float> keys_ = {1, 0, .5, -1, 0, 2, 0, 1, -1, -1, 2, -2};
  const std::vector<float> q_ = {1, .5, -.2f, 3};
  std::vector<float> digests_ = std::vector<float>(12);
  std::vector<float> scores_ = std::vector<float>(6);
};

TEST_F(WorkedSelection, DigestIsTheBoxAroundTheKeys) {
  EXPECT_EQ(digests_, (std::vector<float>{.5, -1, 1, 0, 0, 1, 0, 2, -1, -2, 2, -1}));
}

TEST_F(WorkedSelection, ScoreIsTheBound) {
  const float want[] = {1.0f, 1.0f, 1.5f, -0.1f, 6.0f, -2.8f};
  for (int i = 0; i < 6; ++i) EXPECT_NEAR(scores_[i], want[i], 1e-6) << i;
}

TEST_F(WorkedSelection, TheBoundIsNoLessThanTheLargestDotAndNoMoreWhereAKeyIsInTheCorner) {
  const float largest[] = {1, 1, 1, -.2f, 6, -2.8f};
  for (int query = 0; query < 2; ++query) {
    for (int page = 0; page < 3; ++page) {
      const float* q = q_.data() + query * 2;
      const float* keys = keys_.data() + page * 4;
      const float got = std::max(q[0] * keys[0] + q[1] * keys[1], q[0] * keys[2] + q[1] * keys[3]);
      const int i = query * 3 + page;
      EXPECT_NEAR(got, largest[i], 1e-6) << i;
      EXPECT_GE(scores_[i], got - 1e-6f) << i;
    }
  }
}

TEST_F(WorkedSelection, PoolingsDisagreeAsInTheSpec) {
  const auto expect = [&](Pooling pooling, float a, float b, float c, float tolerance) {
    const std::vector<float> got = Pooled(pooling);
    EXPECT_NEAR(got[0], a, tolerance);
    EXPECT_NEAR(got[1], b, tolerance);
    EXPECT_NEAR(got[2], c, tolerance);
  };
  expect(Pooling::kAvgS, .45f, 3.5f, -.65f, 1e-6f);
  expect(Pooling::kMaxS, 1.0f, 6.0f, 1.5f, 1e-6f);
  expect(Pooling::kAvgSM, .1382f, .6358f, .2260f, 5e-5f);
  EXPECT_EQ(BestTwo(Pooled(Pooling::kAvgS)), (std::vector<int32_t>{0, 1}));   // {B, A}
  EXPECT_EQ(BestTwo(Pooled(Pooling::kAvgSM)), (std::vector<int32_t>{1, 2}));  // {B, C}
}

TEST_F(WorkedSelection, QueryPoolingHappensBeforeTheScore) {
  std::vector<float> pooled(2);
  PoolQueryArgs args{.q = q_.data(),
                     .pooled = pooled.data(),
                     .n_q = 2,
                     .n_kv = 1,
                     .head_dim = 2,
                     .pooling = Pooling::kMaxQ};
  ASSERT_EQ(ref.pool_query(args), OpStatus::kOk);
  EXPECT_EQ(pooled, (std::vector<float>{1, 3}));
  args.pooling = Pooling::kAvgQ;
  ASSERT_EQ(ref.pool_query(args), OpStatus::kOk);
  EXPECT_FLOAT_EQ(pooled[0], .4f);
  EXPECT_FLOAT_EQ(pooled[1], 1.75f);
}

TEST(SoftmaxExpTest, IsWithinItsBoundOverTheWholeRange) {
  const uint32_t last = FloatBits(kExpLeast);
  double farthest = 0;  // In units in the last place.
  for (uint32_t bits = FloatBits(-0.0f); bits <= last; bits += 997) {
    const float x = FloatFromBits(bits);
    const double want = std::exp(double{x});
    const double unit = std::ldexp(1.0, std::ilogb(want) - 23);
    farthest = std::max(farthest, std::abs(SoftmaxExp(x) - want) / unit);
  }
  EXPECT_LE(farthest, 1.25);
}

TEST(SoftmaxExpTest, HasExactLimits) {
  EXPECT_EQ(SoftmaxExp(0.0f), 1.0f);
  EXPECT_EQ(SoftmaxExp(-0.0f), 1.0f);
  EXPECT_TRUE(std::isnormal(SoftmaxExp(kExpLeast)));
  EXPECT_EQ(SoftmaxExp(std::nextafter(kExpLeast, -INFINITY)), 0.0f);
  EXPECT_EQ(SoftmaxExp(std::numeric_limits<float>::lowest()), 0.0f);
  EXPECT_EQ(SoftmaxExp(-INFINITY), 0.0f);
  EXPECT_TRUE(std::isnan(SoftmaxExp(NAN)));
}

TEST(SoftmaxTest, SumIsThatOfTheWeights) {
  std::mt19937 random(8);
  std::normal_distribution<float> normal(0.0f, 3.0f);
  for (const int64_t n : {1, 511, 513, 5000}) {
    std::vector<float> row(n), weights(n);
    for (float& value : row) value = normal(random);
    const float sum = PlainSoftmax(row.data(), n, 1.0f, weights.data());
    EXPECT_EQ(*std::max_element(weights.begin(), weights.end()), 1.0f);
    const double want = std::accumulate(weights.begin(), weights.end(), 0.0);
    EXPECT_NEAR(sum, want, 1e-6 * want) << n << " pages";
  }
}

TEST(SoftmaxTest, PagesThatScoreEquallyShareAndFarOnesGetNothing) {
  const std::vector<float> scores = {5, -83, 5, NAN, 1, 1, 1, 1};
  std::vector<float> pooled(4);
  const PoolArgs args{.scores = scores.data(),
                      .pooled = pooled.data(),
                      .n_q = 2,
                      .n_kv = 1,
                      .n_pages = 4,
                      .pooling = Pooling::kMaxSM};
  ASSERT_EQ(ref.pool(args), OpStatus::kOk);
  EXPECT_EQ(pooled[0], 0.5f);
  EXPECT_EQ(pooled[1], 0.25f);
  EXPECT_EQ(pooled[2], 0.5f);
  EXPECT_TRUE(std::isnan(pooled[3]));
  PoolArgs mean = args;
  mean.pooling = Pooling::kAvgSM;
  ASSERT_EQ(ref.pool(mean), OpStatus::kOk);
  EXPECT_EQ(pooled[0], 0.375f);
  EXPECT_EQ(pooled[1], 0.125f);
  EXPECT_EQ(pooled[2], 0.375f);
  EXPECT_TRUE(std::isnan(pooled[3]));
}

struct Summary {
  DigestKind kind;
  int64_t rotary_dim = 0;
  bool interleaved = false;

  std::vector<float> Digest(const std::vector<float>& keys, int64_t d) const {
    std::vector<float> digest(DigestElements(kind, d), NAN);
    EXPECT_EQ(ref.digest({.units = keys.data(),
                          .unit_stride = static_cast<int64_t>(keys.size()),
                          .digests = digest.data(),
                          .n_units = 1,
                          .page_tokens = static_cast<int64_t>(keys.size()) / d,
                          .head_dim = d,
                          .dtype = DType::kF32,
                          .out_dtype = DType::kF32,
                          .kind = kind,
                          .rotary_dim = rotary_dim,
                          .interleaved = interleaved}),
              OpStatus::kOk);
    return digest;
  }
  float Score(const std::vector<float>& q, const void* digest, DType dtype = DType::kF32) const {
    float score = NAN;
    EXPECT_EQ(ref.score({.q = q.data(),
                         .digests = digest,
                         .scores = &score,
                         .n_pages = 1,
                         .n_q = 1,
                         .n_kv = 1,
                         .head_dim = static_cast<int64_t>(q.size()),
                         .dtype = dtype,
                         .kind = kind,
                         .rotary_dim = rotary_dim,
                         .interleaved = interleaved}),
              OpStatus::kOk);
    return score;
  }
};

TEST(Reference, EveryKindOfDigestByHand) {
  // Three keys of four channels; lo = (0, -2, 1, 0), hi = (3, 2, 1, 8).
  const std::vector<float> keys = {0, 2, 1, 8, 3, -2, 1, 0, 3, 0, 1, 4};
  const std::vector<float> q = {1, -2, 3, -.5};
  const auto expect = [&](const Summary& summary, const std::vector<float>& digest, float score) {
    const std::vector<float> got = summary.Digest(keys, 4);
    ASSERT_EQ(got.size(), digest.size());
    for (size_t i = 0; i < digest.size(); ++i) EXPECT_FLOAT_EQ(got[i], digest[i]) << i;
    EXPECT_FLOAT_EQ(summary.Score(q, got.data()), score);
  };
  const auto root = [](float x) { return std::sqrt(x); };
  expect({DigestKind::kMinMax}, {0, -2, 1, 0, 3, 2, 1, 8}, 3 + 4 + 3 + 0);
  expect({DigestKind::kMean}, {2, 0, 1, 4}, 2 - 0 + 3 - 2);
  expect({DigestKind::kRepresentatives}, {2, 0, 1, 4}, 2 - 0 + 3 - 2);
  // Distances from the centre (1.5, 0, 1, 4): (1.5, 2, 0, 4), (1.5, 2, 0, 4), (1.5, 0, 0, 0).
  const float at_centre = 1.5f - 0 + 3 - 2;
  expect({DigestKind::kCentreDeviation}, {1.5, 0, 1, 4, 1.5, 4 / 3.f, 0, 8 / 3.f},
         at_centre + 1.5f + 2 * 4 / 3.f + .5f * 8 / 3.f);
  expect({DigestKind::kCentreRadius}, {1.5, 0, 1, 4, root(22.25)},
         at_centre + root(14.25) * root(22.25));
  // Pairs (0, 2) and (1, 3), or neighbours; neighbours also without rotation.
  expect({DigestKind::kDisc, 4}, {1.5, 0, 1, 4, 1.5, root(20)},
         at_centre + root(10) * 1.5f + root(4.25) * root(20));
  for (const Summary& neighbours : {Summary{DigestKind::kDisc, 4, true}, {DigestKind::kDisc, 0}}) {
    expect(neighbours, {1.5, 0, 1, 4, 2.5, 4}, at_centre + root(5) * 2.5f + root(9.25) * 4);
  }
}

TEST(Reference, BoundsHoldForWhatIsStored) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  const auto floats = [&](size_t n) {
    std::vector<float> values(n);
    for (float& value : values) value = normal(random);
    return values;
  };
  constexpr int64_t kDim = 16, kRows = 5;
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    for (int round = 0; round < 200; ++round) {
      std::vector<uint16_t> keys(kRows * kDim);
      for (size_t i = 0; i < keys.size(); ++i) StoreElement(keys.data(), i, dtype, normal(random));
      const std::vector<float> q = floats(kDim);
      double largest = -INFINITY;
      for (int64_t r = 0; r < kRows; ++r) {
        double dot = 0;
        for (int64_t c = 0; c < kDim; ++c) {
          dot += double{q[c]} * LoadElement(keys.data(), r * kDim + c, dtype);
        }
        largest = std::max(largest, dot);
      }
      for (const Summary& summary : {Summary{DigestKind::kMinMax},
                                     {DigestKind::kCentreRadius},
                                     {DigestKind::kDisc, 8},
                                     {DigestKind::kDisc, 16, true}}) {
        std::vector<uint16_t> digest(DigestElements(summary.kind, kDim));
        ASSERT_EQ(ref.digest({.units = keys.data(),
                              .unit_stride = kRows * kDim,
                              .digests = digest.data(),
                              .n_units = 1,
                              .page_tokens = kRows,
                              .head_dim = kDim,
                              .dtype = dtype,
                              .out_dtype = dtype,
                              .kind = summary.kind,
                              .rotary_dim = summary.rotary_dim,
                              .interleaved = summary.interleaved}),
                  OpStatus::kOk);
        // Slack for the rounding of the sum itself: 1e-5 of its terms.
        EXPECT_GE(summary.Score(q, digest.data(), dtype), largest - 1e-4);
      }
    }
  }
}

TEST(Reference, DigestsOfKeysThatAreNoNumbersScoreNaN) {
  const std::vector<float> q = {1, 1, 1, 1};
  for (const Summary& summary : {Summary{DigestKind::kMean},
                                 {DigestKind::kRepresentatives},
                                 {DigestKind::kCentreDeviation},
                                 {DigestKind::kCentreRadius},
                                 {DigestKind::kDisc, 4}}) {
    for (const float poison : {NAN, INFINITY}) {
      const std::vector<float> digest = summary.Digest({0, 1, 2, 3, 4, poison, 6, 7}, 4);
      EXPECT_TRUE(std::isnan(summary.Score(q, digest.data())));
    }
  }
}

// Digests of means rotate with their document, those of extremes do not. 16 keys of eight channels
// at positions 0 to 15, moved by 777.
TEST(Reference, RotationCommutesWithTheMeanAndNotWithTheMinimum) {
  constexpr int kKeys = 16, kDim = 8, kMoved = 777;
  const auto rotated = [](std::vector<float> rows, int first) {
    const int count = static_cast<int>(rows.size()) / kDim;
    std::vector<float> cos, sin;
    std::vector<int32_t> positions(count);
    for (int i = 0; i < count; ++i) {
      positions[i] = i;
      for (int pair = 0; pair < kDim / 2; ++pair) {
        const double angle = (first + i) * std::pow(10000.0, -2.0 * pair / kDim);
        cos.push_back(static_cast<float>(std::cos(angle)));
        sin.push_back(static_cast<float>(std::sin(angle)));
      }
    }
    EXPECT_EQ(ref.rope({.rows = rows.data(),
                        .positions = positions.data(),
                        .cos_table = cos.data(),
                        .sin_table = sin.data(),
                        .t = static_cast<uint32_t>(count),
                        .heads = 1,
                        .head_dim = kDim,
                        .rotary_dim = kDim,
                        .n_positions = static_cast<uint32_t>(count)}),
              OpStatus::kOk);
    return rows;
  };
  const auto mean = [](const std::vector<float>& rows) {
    std::vector<float> one(kDim);
    for (size_t i = 0; i < rows.size(); ++i) one[i % kDim] += rows[i] / kKeys;
    return one;
  };
  const auto least = [](const std::vector<float>& rows) {
    std::vector<float> one(rows.begin(), rows.begin() + kDim);
    for (size_t i = kDim; i < rows.size(); ++i) one[i % kDim] = std::min(one[i % kDim], rows[i]);
    return one;
  };
  const auto distance = [](const std::vector<float>& a, const std::vector<float>& b) {
    float most = 0;
    for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
    return most;
  };
  std::vector<float> keys(size_t{kKeys} * kDim);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = std::sin(static_cast<float>(i * i + 1));
  const std::vector<float> here = rotated(keys, 0), there = rotated(keys, kMoved);
  EXPECT_LT(distance(rotated(mean(here), kMoved), mean(there)), 1e-5f);
  EXPECT_GT(distance(rotated(least(here), kMoved), least(there)), 0.5f);
}

// Rotations add: the tables hold position 5, the delta 1000 and position 1005.
TEST(Reference, RopeRotatesAndDeltasAdd) {
  std::vector<float> cos, sin;
  for (const double position : {5.0, 1000.0, 1005.0}) {
    for (const double frequency : {1.0, 0.01}) {  // 10000^(-2i/4)
      cos.push_back(static_cast<float>(std::cos(position * frequency)));
      sin.push_back(static_cast<float>(std::sin(position * frequency)));
    }
  }
  const auto rotate = [&](std::vector<float> row, int32_t position, bool interleaved) {
    EXPECT_EQ(ref.rope({.rows = row.data(),
                        .positions = &position,
                        .cos_table = cos.data(),
                        .sin_table = sin.data(),
                        .t = 1,
                        .heads = 1,
                        .head_dim = 4,
                        .rotary_dim = 4,
                        .n_positions = 3,
                        .interleaved = interleaved}),
              OpStatus::kOk);
    return row;
  };
  const std::vector<float> key = {.3f, -1.1f, .7f, .2f};
  const float want[] = {.499039f, 1.008972f, .575291f, .481638f};
  const std::vector<float> direct = rotate(key, 2, false);
  const std::vector<float> twice = rotate(rotate(key, 0, false), 1, false);
  const std::vector<float> pairs = rotate({.3f, .7f, -1.1f, .2f}, 2, true);
  for (int c = 0; c < 4; ++c) {
    EXPECT_NEAR(direct[c], want[c], 2e-6) << c;
    EXPECT_NEAR(twice[c], want[c], 2e-6) << c;
  }
  EXPECT_FLOAT_EQ(pairs[0], direct[0]);
  EXPECT_FLOAT_EQ(pairs[1], direct[2]);
  EXPECT_FLOAT_EQ(pairs[2], direct[1]);
  EXPECT_FLOAT_EQ(pairs[3], direct[3]);
}

// Steps of 2^-23 make b * cos = -(1 + 2) and a * sin = (1 + 1)(1 + 1). The latter is 1 + 2 and
// 2^-46. A fused product, or one in f64, would leave that rest.
TEST(Reference, RopeRoundsEachProduct) {
  float row[] = {0x1.000002p0f, -1};
  const float cos = 0x1.000004p0f, sin = 0x1.000002p0f;
  const int32_t position = 0;
  ASSERT_EQ(ref.rope({.rows = row,
                      .positions = &position,
                      .cos_table = &cos,
                      .sin_table = &sin,
                      .t = 1,
                      .heads = 1,
                      .head_dim = 2,
                      .rotary_dim = 2,
                      .n_positions = 1}),
            OpStatus::kOk);
  EXPECT_EQ(row[0], 0x1.000004p1f);
  EXPECT_EQ(row[1], 0);
}

TEST(Reference, UnitsHoldKeysThenValuesOfOneHead) {
  // Two slots, p = 2, two heads, d = 1: element = 100 * slot + 10 * row + head; values negative.
  const std::vector<float> k = {0, 1, 10, 11, 100, 101, 110, 111};
  std::vector<float> v(8);
  for (int i = 0; i < 8; ++i) v[i] = -k[i];
  const std::vector<int32_t> slots = {1, 0};
  std::vector<float> units(16, 7.0f);
  ASSERT_EQ(ref.nhd_to_hnd({.k_pool = k.data(),
                            .v_pool = v.data(),
                            .slots = slots.data(),
                            .units = units.data(),
                            .num_slots = 2,
                            .n_pages = 2,
                            .page_tokens = 2,
                            .n_kv = 2,
                            .head_dim = 1,
                            .last_page_rows = 1,
                            .dtype = DType::kF32}),
            OpStatus::kOk);
  EXPECT_EQ(units, (std::vector<float>{100, 110, -100, -110, 101, 111, -101, -111,  // Slot 1.
                                       0, 0, 0, 0, 1, 0, -1, 0}));  // Slot 0, second row cleared.
  const std::vector<UnitPlacement> places = {{0, 1}};
  std::vector<float> k_pool(8), v_pool(8);
  ASSERT_EQ(ref.hnd_to_nhd({.units = units.data(),
                            .placements = places.data(),
                            .k_pool = k_pool.data(),
                            .v_pool = v_pool.data(),
                            .num_slots = 2,
                            .n_units = 1,
                            .page_tokens = 2,
                            .n_kv = 2,
                            .head_dim = 1,
                            .dtype = DType::kF32}),
            OpStatus::kOk);
  EXPECT_EQ(k_pool, (std::vector<float>{0, 100, 0, 110, 0, 0, 0, 0}));
  EXPECT_EQ(v_pool, (std::vector<float>{0, -100, 0, -110, 0, 0, 0, 0}));
}

TEST(Reference, TopKOrdersTiesByIndexAndNaNLast) {
  const float nan = NAN;
  const std::vector<float> scores = {nan, 1, 2, 1, -INFINITY, 1};
  const auto best = [&](int64_t k) {
    std::vector<int32_t> out(TopKWidth(k, 6));
    int32_t nans = -1;
    EXPECT_EQ(ref.topk({.scores = scores.data(),
                        .indices = out.data(),
                        .nan_counts = &nans,
                        .n_rows = 1,
                        .n_pages = 6,
                        .k = k}),
              OpStatus::kOk);
    EXPECT_EQ(nans, 1);
    return out;
  };
  EXPECT_EQ(best(1), (std::vector<int32_t>{2}));
  EXPECT_EQ(best(3), (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(best(5), (std::vector<int32_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(best(9), (std::vector<int32_t>{0, 1, 2, 3, 4, 5}));
}

TEST(Reference, AttentionIsTheWeightedMean) {
  // Scores ln 1 and ln 3 give weights 1/4 and 3/4; the third row of the slot is not valid.
  const std::vector<float> q = {1};
  const std::vector<float> k = {0, std::log(3.0f), 50};
  const std::vector<float> v = {4, 8, 1000};
  const int32_t slot = 0, valid = 2;
  float out = 0, lse = 0;
  ASSERT_EQ(ref.paged_attention({.q = q.data(),
                                 .k_pool = k.data(),
                                 .v_pool = v.data(),
                                 .slots = &slot,
                                 .valid_tokens = &valid,
                                 .out = &out,
                                 .lse = &lse,
                                 .num_slots = 1,
                                 .n_slots = 1,
                                 .page_tokens = 3,
                                 .n_q = 1,
                                 .n_kv = 1,
                                 .head_dim = 1,
                                 .scale = 1,
                                 .dtype = DType::kF32}),
            OpStatus::kOk);
  EXPECT_NEAR(out, 7.0, 1e-6);
  EXPECT_NEAR(lse, std::log(4.0), 1e-6);
}

TEST(Reference, DenseAttentionIsCausal) {
  // With zero queries every visible value has the same weight: running means.
  const std::vector<float> zeros(3), v = {3, 5, 10};
  std::vector<float> out(3);
  DenseAttentionArgs args{.q = zeros.data(),
                          .k = zeros.data(),
                          .v = v.data(),
                          .out = out.data(),
                          .t = 3,
                          .n = 3,
                          .n_q = 1,
                          .n_kv = 1,
                          .head_dim = 1,
                          .scale = 1};
  ASSERT_EQ(ref.dense_attention(args), OpStatus::kOk);
  EXPECT_EQ(out, (std::vector<float>{3, 4, 6}));
  args.t = 1;  // The last position of a longer context.
  ASSERT_EQ(ref.dense_attention(args), OpStatus::kOk);
  EXPECT_EQ(out[0], 6);
  const int32_t last_key = 1;
  args.last_key = &last_key;
  ASSERT_EQ(ref.dense_attention(args), OpStatus::kOk);
  EXPECT_EQ(out[0], 4);
}

TEST(Reference, DenseAttentionWithinAWindowLeavesEarlierKeysOut) {
  const std::vector<float> zeros(3), v = {3, 5, 10};
  std::vector<float> out(3);
  DenseAttentionArgs args{.q = zeros.data(),
                          .k = zeros.data(),
                          .v = v.data(),
                          .out = out.data(),
                          .t = 3,
                          .n = 3,
                          .n_q = 1,
                          .n_kv = 1,
                          .head_dim = 1,
                          .scale = 1,
                          .window = 2};
  ASSERT_EQ(ref.dense_attention(args), OpStatus::kOk);
  EXPECT_EQ(out, (std::vector<float>{3, 4, 7.5}));
  args.window = 1;
  ASSERT_EQ(ref.dense_attention(args), OpStatus::kOk);
  EXPECT_EQ(out, v);
}

TEST(Reference, AGateOfGeluIsHalfOfOnePlusTanh) {
  const std::vector<float> gate = {-1, 0, 2}, up = {1, 5, 3};
  std::vector<float> y(3);
  ASSERT_EQ(ref.silu_mul({.gate = gate.data(),
                          .up = up.data(),
                          .y = y.data(),
                          .rows = 1,
                          .dim = 3,
                          .function = GateFunction::kGeluTanh}),
            OpStatus::kOk);
  EXPECT_NEAR(y[0], -0.5 * (1 + std::tanh(-0.7978845608 * 1.044715)), 1e-6);
  EXPECT_EQ(y[1], 0);
  EXPECT_NEAR(y[2], 3 * (1 + std::tanh(0.7978845608 * (2 + 0.044715 * 8))), 1e-5);
}

TEST(Reference, ASoftCapBoundsScores) {
  // Scores of 0 and 1000 become 0 and 2, since tanh(500) is 1.
  const std::vector<float> q = {1}, k = {0, 1000}, v = {0, 1};
  std::vector<float> out(1);
  ASSERT_EQ(ref.dense_attention({.q = q.data(),
                                 .k = k.data(),
                                 .v = v.data(),
                                 .out = out.data(),
                                 .t = 1,
                                 .n = 2,
                                 .n_q = 1,
                                 .n_kv = 1,
                                 .head_dim = 1,
                                 .scale = 1,
                                 .soft_cap = 2}),
            OpStatus::kOk);
  EXPECT_NEAR(out[0], std::exp(2.0) / (1 + std::exp(2.0)), 1e-6);
}

TEST(Reference, ModelOpsOnPlainNumbers) {
  const std::vector<float> x = {3, 4}, weight = {1, 2};
  std::vector<float> y(2);
  ASSERT_EQ(
      ref.rmsnorm(
          {.x = x.data(), .weight = weight.data(), .y = y.data(), .rows = 1, .dim = 2, .eps = 0}),
      OpStatus::kOk);
  EXPECT_NEAR(y[0], 3 / std::sqrt(12.5), 1e-6);
  EXPECT_NEAR(y[1], 8 / std::sqrt(12.5), 1e-6);
  const std::vector<float> matrix = {1, 2, 3, 4}, bias = {10, 20};
  ASSERT_EQ(ref.matmul({.x = x.data(),
                        .weight = matrix.data(),
                        .bias = bias.data(),
                        .y = y.data(),
                        .rows = 1,
                        .in = 2,
                        .out = 2}),
            OpStatus::kOk);
  EXPECT_EQ(y, (std::vector<float>{21, 45}));
  ASSERT_EQ(
      ref.silu_mul({.gate = x.data(), .up = weight.data(), .y = y.data(), .rows = 1, .dim = 2}),
      OpStatus::kOk);
  EXPECT_NEAR(y[0], 3 / (1 + std::exp(-3.0)), 1e-6);
  EXPECT_NEAR(y[1], 8 / (1 + std::exp(-4.0)), 1e-6);
}

// One token of K and one of V, four channels each; V is half of K, negated.
class WorkedUnit : public ::testing::Test {
 protected:
  std::vector<uint8_t> Encode(UnitCodec codec) const {
    std::vector<uint8_t> out(EncodedUnitBytes(codec, shape_));
    EXPECT_EQ(ref.encode_unit({.units = unit_.data(),
                               .encoded = out.data(),
                               .encoded_bytes = static_cast<int64_t>(out.size()),
                               .n_units = 1,
                               .shape = shape_,
                               .codec = codec}),
              OpStatus::kOk);
    return out;
  }
  std::vector<float> Decode(UnitCodec codec, const std::vector<uint8_t>& encoded) const {
    std::vector<float> out(unit_.size());
    EXPECT_EQ(ref.decode_unit({.encoded = encoded.data(),
                               .encoded_bytes = static_cast<int64_t>(encoded.size()),
                               .units = out.data(),
                               .n_units = 1,
                               .shape = shape_,
                               .codec = codec}),
              OpStatus::kOk);
    return out;
  }
  const UnitShape shape_ = {1, 4, true, DType::kF32};
  const std::vector<float> unit_ = {0, 2, -254, 100, 0, -1, 127, -50};
};

TEST_F(WorkedUnit, Int8) {
  // Scales 2 and 1 as f16, then codes.
  const std::vector<uint8_t> want = {0x00, 0x40, 0x00, 0x3c, 0, 1, 0x81, 50, 0, 0xff, 127, 0xce};
  EXPECT_EQ(Encode(UnitCodec::kInt8), want);
  EXPECT_EQ(Decode(UnitCodec::kInt8, want), unit_);
}

TEST_F(WorkedUnit, Int4) {
  // K: each channel is its own minimum with scale 0. V: minimum -50, scale 177 / 15 = 11.8 rounded
  // up to 11.8046875; codes 4, 4, 15 and 0. Channels 0 and 2 share one byte, 1 and 3 the other.
  const std::vector<uint8_t> encoded = Encode(UnitCodec::kInt4);
  const std::vector<uint8_t> want = {0x00, 0x00, 0x00, 0x40, 0xf0, 0xdb, 0x40, 0x56, 0, 0, 0,    0,
                                     0,    0,    0,    0,    0x40, 0xd2, 0xe7, 0x49, 0, 0, 0xf4, 4};
  EXPECT_EQ(encoded, want);
  const std::vector<float> back = {0, 2, -254, 100, -2.78125f, -2.78125f, 127.0703125f, -50};
  EXPECT_EQ(Decode(UnitCodec::kInt4, encoded), back);
}

TEST_F(WorkedUnit, Fp8HasThreeBitsOfMantissa) {
  // With absmax 448 the scale is 1. 17 and 19 lie between 16, 18 and 20, and are rounded to the
  // even code.
  const UnitShape shape = {1, 6, false, DType::kF32};
  const std::vector<float> unit = {448, 17, -19, 0x1p-9f, 0x1p-11f, NAN};
  std::vector<uint8_t> encoded(EncodedUnitBytes(UnitCodec::kFp8E4M3, shape));
  ASSERT_EQ(ref.encode_unit({.units = unit.data(),
                             .encoded = encoded.data(),
                             .encoded_bytes = static_cast<int64_t>(encoded.size()),
                             .n_units = 1,
                             .shape = shape,
                             .codec = UnitCodec::kFp8E4M3}),
            OpStatus::kOk);
  const std::vector<uint8_t> want = {0, 0, 0x80, 0x3f, 0x7e, 0x58, 0xda, 0x01, 0x00, 0x7f};
  EXPECT_EQ(encoded, want);
}

// A key at position 5, placed 1000 further, is the key at position 1005.
TEST(ReferencePlaceUnits, RotatesAStoredKeyAsSpecJ2) {
  std::vector<float> cos, sin, key = {.3f, -1.1f, .7f, .2f};
  for (const double position : {5.0, 1000.0}) {
    for (const double frequency : {1.0, 0.01}) {
      cos.push_back(static_cast<float>(std::cos(position * frequency)));
      sin.push_back(static_cast<float>(std::sin(position * frequency)));
    }
  }
  const UnitPlacement place = {1, 0};
  std::vector<float> pool(8, -9.0f);
  for (const int32_t rotation : {0, 1}) {
    ASSERT_EQ(ref.place_units({.encoded = key.data(),
                               .placements = &place,
                               .rotations = &rotation,
                               .cos_table = cos.data(),
                               .sin_table = sin.data(),
                               .k_pool = pool.data(),
                               .num_slots = 2,
                               .n_units = 1,
                               .n_kv = 1,
                               .n_rotations = 2,
                               .rotary_dim = 4,
                               .shape = {1, 4, false, DType::kF32}}),
              OpStatus::kOk);
    std::copy(pool.begin() + 4, pool.end(), key.begin());
  }
  EXPECT_NEAR(key[0], .499039, 1e-5);
  EXPECT_NEAR(key[1], 1.008972, 1e-5);
  EXPECT_NEAR(key[2], .575291, 1e-5);
  EXPECT_NEAR(key[3], .481638, 1e-5);
  EXPECT_EQ(pool[0], -9.0f);  // The adjacent slot.
}

TEST(ReferenceMergeAttention, WeighsPartsByTheirSums) {
  // Sums of weights 1 and 3: a quarter of the first, three quarters of the second.
  const std::vector<float> parts = {4, 8, 0, 16};
  const std::vector<float> lse = {0, std::log(3.0f)};
  std::vector<float> out(2), merged(1);
  ASSERT_EQ(ref.merge_attention({.parts = parts.data(),
                                 .part_lse = lse.data(),
                                 .out = out.data(),
                                 .lse = merged.data(),
                                 .n_parts = 2,
                                 .rows = 1,
                                 .dim = 2}),
            OpStatus::kOk);
  EXPECT_NEAR(out[0], 1, 1e-6);
  EXPECT_NEAR(out[1], 14, 1e-6);
  EXPECT_NEAR(merged[0], std::log(4.0f), 1e-6);
}

TEST(ReferenceMlaAttention, ValuesAreTheLatentPartOfTheRow) {
  // Two rows of latent {x} and rope part {y}. The query uses the rope part only: logits 0 and ln 3.
  const std::vector<float> pool = {8, 0, 16, 1};
  const std::vector<float> q = {0, std::log(3.0f)};
  const int32_t slot = 0, valid = 2;
  float out = 0, lse = 0;
  ASSERT_EQ(ref.mla_attention({.q = q.data(),
                               .pool = pool.data(),
                               .slots = &slot,
                               .valid_tokens = &valid,
                               .out = &out,
                               .lse = &lse,
                               .num_slots = 1,
                               .n_slots = 1,
                               .page_tokens = 2,
                               .n_q = 1,
                               .latent_dim = 1,
                               .rope_dim = 1,
                               .scale = 1.0f,
                               .dtype = DType::kF32}),
            OpStatus::kOk);
  EXPECT_NEAR(out, 14, 1e-5);
  EXPECT_NEAR(lse, std::log(4.0f), 1e-6);
}

TEST(ReferenceCorrectHeads, ListsGroupsBelowTau) {
  // Groups of two: cosines 1 and 0 (mean .5), 1 and 1, and a query of zeros.
  const std::vector<float> q = {1, 0, 0, 1, 3, 4, 0, 2, 0, 0, 1, 1};
  const std::vector<float> before = {2, 0, 5, 0, 3, 4, 0, 1, 1, 0, 1, 1};
  std::vector<float> cosines(3);
  std::vector<int32_t> corrected(3);
  int32_t n = -1;
  const auto correct = [&](float tau) {
    EXPECT_EQ(ref.correct_heads({.q = q.data(),
                                 .before = before.data(),
                                 .cosines = cosines.data(),
                                 .corrected = corrected.data(),
                                 .n_corrected = &n,
                                 .n_q = 6,
                                 .n_kv = 3,
                                 .head_dim = 2,
                                 .tau = tau}),
              OpStatus::kOk);
    return std::vector<int32_t>(corrected.begin(), corrected.begin() + n);
  };
  EXPECT_EQ(correct(.8f), (std::vector<int32_t>{0, 2}));
  EXPECT_NEAR(cosines[0], .5, 1e-6);
  EXPECT_NEAR(cosines[1], 1, 1e-6);
  EXPECT_NEAR(cosines[2], .5, 1e-6);
  EXPECT_EQ(correct(1.01f), (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(correct(-1.01f), std::vector<int32_t>());
}

TEST(ReferenceSample, KeepsAndDrawsInTheStatedOrder) {
  // Weights 1, 4, 2, 1 of 8, by index.
  const std::vector<float> logits = {0, std::log(4.0f), std::log(2.0f), 0};
  const auto draw = [&](float uniform, int32_t top_k, float top_p, float temperature = 1.0f) {
    int32_t token = -5;
    const SampleDraw how{
        .temperature = temperature, .top_p = top_p, .top_k = top_k, .uniform = uniform};
    EXPECT_EQ(
        ref.sample(
            {.logits = logits.data(), .draws = &how, .tokens = &token, .rows = 1, .vocab = 4}),
        OpStatus::kOk);
    return token;
  };
  EXPECT_EQ(draw(0.0f, 0, 1.0f), 0);
  EXPECT_EQ(draw(0.13f, 0, 1.0f), 1);
  EXPECT_EQ(draw(0.64f, 0, 1.0f), 2);
  EXPECT_EQ(draw(0.99f, 0, 1.0f), 3);
  EXPECT_EQ(draw(0.0f, 2, 1.0f), 1);  // Tokens 1 and 2, weights 4 and 2 of 6.
  EXPECT_EQ(draw(0.7f, 2, 1.0f), 2);
  EXPECT_EQ(draw(0.99f, 3, 1.0f), 2);  // The tie of 0 and 3 goes to 0.
  EXPECT_EQ(draw(0.0f, 3, 1.0f), 0);
  EXPECT_EQ(draw(0.99f, 0, 0.5f), 1);  // Token 1 alone has half the weight.
  EXPECT_EQ(draw(0.99f, 0, 0.6f), 2);
  EXPECT_EQ(draw(0.99f, 0, 1.0f, 0.0f), 1);
}

}  // namespace
}  // namespace quire::kernels
