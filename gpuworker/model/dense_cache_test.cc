// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/dense_cache.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace quire::worker {
namespace {

/// Two layers, two KV heads of four channels, four query heads.
ModelConfig Config() {
  ModelConfig config;
  config.num_layers = 2;
  config.num_query_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 4;
  config.max_positions = 1000;
  return config;
}
constexpr size_t kQueryRow = 4 * 4;
constexpr size_t kKvRow = 2 * 4;

/// Steps of made-up queries, keys and values that depend on the position alone.
class Steps {
 public:
  Steps(uint64_t first, uint32_t count) : first_(first), count_(count), out(count * kQueryRow) {
    for (uint64_t position = first; position < first + count; ++position) {
      for (size_t c = 0; c < kQueryRow; ++c) q_.push_back(std::sin(0.7f * position + c));
      for (size_t c = 0; c < kKvRow; ++c) k_.push_back(std::cos(0.3f * position * (c + 1)));
      for (size_t c = 0; c < kKvRow; ++c) v_.push_back(std::sin(0.1f * position + 2 * c));
    }
  }
  Status Run(DenseCache& cache, uint32_t layer) {
    return cache.Attend({.layer = layer,
                         .num_tokens = count_,
                         .first_position = first_,
                         .q = q_.data(),
                         .k = k_.data(),
                         .v = v_.data(),
                         .out = out.data()});
  }
  Status RunAllLayers(DenseCache& cache) {
    QUIRE_RETURN_IF_ERROR(Run(cache, 0));
    return Run(cache, 1);
  }

 private:
  const uint64_t first_;
  const uint32_t count_;
  std::vector<float> q_, k_, v_;

 public:
  std::vector<float> out;  ///< Output of the last Run.
  const std::vector<float>& keys() const { return k_; }
};

/// The definition: softmax(q.k / sqrt(d)) over positions 0..i, in double.
double Expected(uint64_t position, size_t head, size_t channel) {
  double total = 0;
  double sum = 0;
  for (uint64_t key = 0; key <= position; ++key) {
    double dot = 0;
    for (size_t c = 0; c < 4; ++c) {
      const size_t kv = head / 2 * 4 + c;
      dot += double{std::sin(0.7f * position + (head * 4 + c))} * std::cos(0.3f * key * (kv + 1));
    }
    const double weight = std::exp(dot / 2.0);
    total += weight;
    sum += weight * std::sin(0.1f * key + 2 * (head / 2 * 4 + channel));
  }
  return sum / total;
}

TEST(DenseCache, IsCausalAttentionOverEverythingSoFar) {
  DenseCache cache(Config(), &CpuDevice(), 1000);
  uint64_t position = 0;
  for (uint32_t count : {1u, 5u, 64u, 1u, 130u}) {
    Steps steps(position, count);
    ASSERT_TRUE(steps.RunAllLayers(cache).ok());
    for (uint32_t i = 0; i < count; ++i) {
      for (size_t c = 0; c < kQueryRow; ++c) {
        ASSERT_NEAR(steps.out[i * kQueryRow + c], Expected(position + i, c / 4, c % 4), 1e-4);
      }
    }
    position += count;
    EXPECT_EQ(cache.length(), position);
  }
}

TEST(DenseCache, KeysAreKeptInOrderThroughGrowth) {
  DenseCache cache(Config(), &CpuDevice(), 1000);
  for (uint64_t position = 0; position < 300; ++position) {
    ASSERT_TRUE(Steps(position, 1).RunAllLayers(cache).ok());
  }
  const Steps all(0, 300);
  for (size_t i = 0; i < 300 * kKvRow; ++i) ASSERT_EQ(cache.keys(1)[i], all.keys()[i]);
}

TEST(DenseCache, AStepThatDoesNotContinueIsRefused) {
  DenseCache cache(Config(), &CpuDevice(), 1000);
  ASSERT_TRUE(Steps(0, 10).RunAllLayers(cache).ok());
  EXPECT_EQ(Steps(9, 1).Run(cache, 0).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Steps(11, 1).Run(cache, 0).code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Steps(10, 1).Run(cache, 0).ok());
}

TEST(DenseCache, TheLimitIsKeptAndReachable) {
  DenseCache cache(Config(), &CpuDevice(), 100);
  EXPECT_EQ(Steps(0, 101).Run(cache, 0).code(), StatusCode::kResourceExhausted);
  ASSERT_TRUE(Steps(0, 70).RunAllLayers(cache).ok());
  ASSERT_TRUE(Steps(70, 30).RunAllLayers(cache).ok());
  EXPECT_EQ(Steps(100, 1).Run(cache, 0).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(cache.length(), 100u);
}

TEST(DenseCache, TruncatingContinuesFromThere) {
  DenseCache cache(Config(), &CpuDevice(), 1000);
  ASSERT_TRUE(Steps(0, 90).RunAllLayers(cache).ok());
  ASSERT_TRUE(cache.Truncate(40).ok());
  EXPECT_EQ(cache.length(), 40u);
  Steps steps(40, 10);
  ASSERT_TRUE(steps.RunAllLayers(cache).ok());
  for (size_t c = 0; c < kQueryRow; ++c) {
    EXPECT_NEAR(steps.out[9 * kQueryRow + c], Expected(49, c / 4, c % 4), 1e-4);
  }
  EXPECT_EQ(cache.Truncate(51).code(), StatusCode::kFailedPrecondition);
}

TEST(DenseCache, AfterAStepThatReachedSomeLayersOnlyTruncatingEvensThemOut) {
  DenseCache cache(Config(), &CpuDevice(), 1000);
  ASSERT_TRUE(Steps(0, 10).RunAllLayers(cache).ok());
  ASSERT_TRUE(Steps(10, 5).Run(cache, 0).ok());
  EXPECT_EQ(cache.length(), 10u);
  ASSERT_TRUE(cache.Truncate(cache.length()).ok());
  EXPECT_TRUE(Steps(10, 5).RunAllLayers(cache).ok());
}

}  // namespace
}  // namespace quire::worker
