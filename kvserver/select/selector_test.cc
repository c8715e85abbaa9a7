// SPDX-License-Identifier: Apache-2.0
#include "kvserver/select/selector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "common/base/random.h"
#include "kernels/cpu/cpu_kernels.h"

namespace quire::kvserver {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

KvSpec Spec(uint32_t n_q, uint32_t n_kv, uint32_t d, uint32_t g) {
  KvSpec spec;
  spec.dtype = DType::kF32;
  spec.num_layers = 1;
  spec.num_query_heads = n_q;
  spec.num_kv_heads = n_kv;
  spec.head_dim = d;
  spec.segment_pages = g;
  return spec;
}

/// Digests of `pages` pages of random keys, as one array [pages][n_kv][2][d] of floats.
std::vector<float> RandomDigests(const KvSpec& spec, uint32_t pages, Random& random) {
  std::vector<float> digests(size_t{pages} * spec.num_kv_heads * 2 * spec.key_dim());
  const uint32_t d = spec.key_dim();
  for (size_t row = 0; row < digests.size(); row += 2 * d) {
    for (uint32_t c = 0; c < d; ++c) {
      const float a = random.Normal(), b = random.Normal();
      digests[row + c] = std::min(a, b);
      digests[row + d + c] = std::max(a, b);
    }
  }
  return digests;
}

/// The same array as blocks of g pages from the segment of `first_page` on.
DigestBlocks Blocks(const KvSpec& spec, const std::vector<float>& digests, uint32_t first_page) {
  const auto bytes = std::as_bytes(std::span(digests));
  const uint64_t block = spec.segment_pages * PageDigestBytes(spec);
  const uint32_t segment = first_page / spec.segment_pages;
  DigestBlocks blocks(spec, segment * spec.segment_pages);
  for (uint64_t at = segment * block; at < bytes.size(); at += block) {
    blocks.Append({bytes.subspan(at, std::min(block, bytes.size() - at)), nullptr});
  }
  return blocks;
}

PageQuery RandomQuery(const KvSpec& spec, uint32_t first, uint32_t end, uint32_t k,
                      Random& random) {
  PageQuery query;
  query.query.resize(size_t{spec.num_query_heads} * spec.key_dim());
  for (float& value : query.query) value = random.Normal();
  query.first_page = first;
  query.end_page = end;
  query.num_pages = k;
  return query;
}

/// FreeKV's selection written out: bound, softmax per query head, mean over the group, best k.
std::vector<uint32_t> ByHand(const KvSpec& spec, const PageQuery& query,
                             const std::vector<float>& digests, uint32_t head) {
  const uint32_t d = spec.key_dim(), group = spec.group_size();
  const uint32_t n = query.end_page - query.first_page;
  std::vector<double> weight(n, 0.0);
  for (uint32_t a = head * group; a < (head + 1) * group; ++a) {
    std::vector<double> score(n, 0.0);
    for (uint32_t j = 0; j < n; ++j) {
      const float* lo = &digests[((query.first_page + j) * spec.num_kv_heads + head) * 2 * d];
      for (uint32_t c = 0; c < d; ++c) {
        const double q = query.query[a * d + c];
        score[j] += std::max(q * lo[c], q * lo[d + c]);
      }
    }
    const double top = *std::max_element(score.begin(), score.end());
    double sum = 0;
    for (double& s : score) sum += s = std::exp(s - top);
    for (uint32_t j = 0; j < n; ++j) weight[j] += score[j] / sum / group;
  }
  std::vector<uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t x, uint32_t y) { return weight[x] > weight[y]; });
  order.resize(query.num_pages);
  for (uint32_t& page : order) page += query.first_page;
  std::sort(order.begin(), order.end());
  return order;
}

TEST(SelectorTest, SelectsWhatTheFormulaSaysForEveryShape) {
  SeededRandom random(21);
  Selector selector(kernels::CpuReference());
  for (const auto& [n_q, n_kv] : {std::pair{1u, 1u}, {4u, 4u}, {8u, 2u}, {8u, 1u}}) {
    const KvSpec spec = Spec(n_q, n_kv, 16, 8);
    for (const uint32_t pages : {1u, 7u, 8u, 9u, 40u}) {
      const std::vector<float> digests = RandomDigests(spec, pages, random);
      for (uint32_t first : {0u, 3u, 17u}) {
        first = std::min(first, pages - 1);
        const uint32_t k = std::min(5u, pages - first);
        const PageQuery query = RandomQuery(spec, first, pages, k, random);
        ASSERT_TRUE(Selector::Check(spec, query, pages).ok());
        const auto selected = selector.Select(spec, query, Blocks(spec, digests, first));
        ASSERT_TRUE(selected.ok()) << selected.status();
        for (uint32_t head = 0; head < n_kv; ++head) {
          EXPECT_EQ((*selected)[head], ByHand(spec, query, digests, head));
        }
      }
    }
  }
}

TEST(SelectorTest, BlocksAndOneArrayGiveTheSameWithEveryPooling) {
  SeededRandom random(22);
  const KvSpec spec = Spec(8, 2, 16, 4), whole = Spec(8, 2, 16, 64);
  const std::vector<float> digests = RandomDigests(spec, 30, random);
  for (const kernels::KernelTable* ops : {&kernels::CpuReference(), &kernels::CpuKernels()}) {
    Selector selector(*ops);
    for (int pooling = 1; pooling <= 7; ++pooling) {
      PageQuery query = RandomQuery(spec, 5, 29, 6, random);
      query.pooling = static_cast<kernels::Pooling>(pooling);
      const auto in_blocks = selector.Select(spec, query, Blocks(spec, digests, 5));
      const auto in_one = selector.Select(whole, query, Blocks(whole, digests, 5));
      ASSERT_TRUE(in_blocks.ok()) << in_blocks.status();
      EXPECT_EQ(*in_blocks, *in_one);
      for (const auto& pages : *in_blocks) {
        EXPECT_EQ(pages.size(), 6u);
        EXPECT_TRUE(std::is_sorted(pages.begin(), pages.end()));
      }
    }
  }
}

TEST(SelectorTest, AllCandidatesNoneAndTies) {
  const KvSpec spec = Spec(2, 1, 4, 4);
  SeededRandom random(23);
  Selector selector(kernels::CpuReference());
  const std::vector<float> zeros(8 * 2 * 4, 0.0f);
  PageQuery query = RandomQuery(spec, 2, 8, 3, random);
  EXPECT_THAT((*selector.Select(spec, query, Blocks(spec, zeros, 2)))[0], ElementsAre(2, 3, 4));
  query.num_pages = 6;
  EXPECT_THAT((*selector.Select(spec, query, DigestBlocks(spec, 0)))[0],
              ElementsAre(2, 3, 4, 5, 6, 7));
  query.num_pages = 0;
  EXPECT_THAT((*selector.Select(spec, query, DigestBlocks(spec, 0)))[0], ElementsAre());
  query.end_page = 2;
  query.num_pages = 5;
  EXPECT_THAT((*selector.Select(spec, query, DigestBlocks(spec, 0)))[0], ElementsAre());
}

TEST(SelectorTest, PagesThatScoreNaNComeLastAndAreCounted) {
  const KvSpec spec = Spec(1, 1, 4, 4);
  SeededRandom random(24);
  std::vector<float> digests = RandomDigests(spec, 4, random);
  digests[0] = digests[4] = std::numeric_limits<float>::quiet_NaN();  // Page 0, channel 0.
  Selector selector(kernels::CpuReference());
  const PageQuery query = RandomQuery(spec, 0, 4, 3, random);
  EXPECT_THAT((*selector.Select(spec, query, Blocks(spec, digests, 0)))[0], ElementsAre(1, 2, 3));
  EXPECT_EQ(MetricValuesOf(selector).at("select_nan_scores"), 1u);
}

TEST(SelectorTest, ChecksShapesBeforeAnythingIsRead) {
  const KvSpec spec = Spec(4, 2, 8, 4);
  SeededRandom random(25);
  const PageQuery good = RandomQuery(spec, 0, 10, 3, random);
  EXPECT_TRUE(Selector::Check(spec, good, 10).ok());
  EXPECT_EQ(Selector::Check(spec, good, 9).code(), StatusCode::kInvalidArgument);
  PageQuery bad = good;
  bad.query.push_back(0);
  EXPECT_THAT(std::string(Message(Selector::Check(spec, bad, 10))), HasSubstr("33 numbers"));
  for (const float scale : {0.0f, -1.0f, std::numeric_limits<float>::infinity()}) {
    bad = good;
    bad.scale = scale;
    EXPECT_FALSE(Selector::Check(spec, bad, 10).ok());
  }
  bad = good;
  bad.pooling = static_cast<kernels::Pooling>(0);
  EXPECT_FALSE(Selector::Check(spec, bad, 10).ok());
}

}  // namespace
}  // namespace quire::kvserver
