// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/keys/representatives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/base/random.h"
#include "gpuworker/testing/one_layer_policy.h"

namespace quire::worker {
namespace {

using ::testing::Each;
using ::testing::FloatNear;
using ::testing::Pointwise;

constexpr uint32_t kKvHeads = 2, kGroup = 2, kDim = 4, kRows = 32;  // blocks of four pages

KvSpec Spec() {
  KvSpec spec = testing::OneLayerContext(kKvHeads, kDim, kRows, {}).spec;
  spec.num_query_heads = kKvHeads * kGroup;
  return spec;
}

std::vector<float> RandomRows(uint32_t rows, uint64_t seed) {
  SeededRandom random(seed);
  std::vector<float> values(size_t{rows} * kDim);
  for (float& value : values) value = random.Normal();
  return values;
}

/// The work of Representatives, from all keys and queries at once and in f64: pages [n_kv][p][d],
/// and query rows [n_q][d] that came when so many pages were complete.
class Reference {
 public:
  explicit Reference(uint32_t window_pages) : in_window_(window_pages - 1) {}
  std::vector<std::vector<float>> pages;
  std::vector<std::pair<size_t, std::vector<float>>> queries;

  /// The mean of block `block` for `head` when all its pages have left the window.
  std::vector<float> Mean(size_t block, uint32_t head) const {
    std::vector<double> received(4 * kRows);
    for (const auto& [complete, q] : queries) {
      for (uint32_t a = head * kGroup; a < (head + 1) * kGroup; ++a) {
        const size_t first = complete - std::min<size_t>(complete, in_window_);
        double total = 0;
        for (size_t t = first * kRows; t < complete * kRows; ++t) total += Weight(q, a, head, t);
        for (size_t t = first * kRows; t < complete * kRows; ++t) {
          if (t / kRows / 4 == block) {
            received[t % (4 * kRows)] += Weight(q, a, head, t) / total;
          }
        }
      }
    }
    std::vector<size_t> order(received.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return received[a] > received[b]; });
    std::vector<float> mean(kDim);
    for (size_t i = 0; i < Representatives::kPerBlock; ++i) {
      const auto key = Key(head, block * 4 * kRows + order[i]);
      for (uint32_t c = 0; c < kDim; ++c) mean[c] += key[c] / Representatives::kPerBlock;
    }
    return mean;
  }

 private:
  std::span<const float> Key(uint32_t head, size_t token) const {
    return std::span(pages[token / kRows]).subspan((head * kRows + token % kRows) * kDim, kDim);
  }
  double Weight(const std::vector<float>& q, uint32_t a, uint32_t head, size_t token) const {
    double product = 0;
    for (uint32_t c = 0; c < kDim; ++c) product += q[a * kDim + c] * Key(head, token)[c];
    return std::exp(product / std::sqrt(kDim));
  }
  const size_t in_window_;
};

TEST(RepresentativesTest, TheTokensPaidTheMostWhileInTheWindowStandForTheirBlock) {
  constexpr uint32_t kWindow = 6, kPages = 16;
  Representatives found(Spec(), 0, kWindow);
  Reference reference(kWindow);
  uint64_t seed = 1;
  for (uint32_t page = 0; page < kPages; ++page) {
    reference.pages.push_back(RandomRows(kKvHeads * kRows, ++seed));
    found.AddPage(reference.pages.back());
    EXPECT_EQ(found.end_page(), page + 1 < kWindow ? 0 : page + 2 - kWindow);
    const std::vector<float> queries = RandomRows(3 * kKvHeads * kGroup, ++seed);
    ASSERT_EQ(found.Attend(queries), OkStatus());
    for (auto at = queries.begin(); at != queries.end(); at += kKvHeads * kGroup * kDim) {
      reference.queries.emplace_back(page + 1, std::vector(at, at + kKvHeads * kGroup * kDim));
    }
  }
  while (found.in_window() > 0) found.Leave();
  ASSERT_EQ(found.end_page(), kPages);
  for (uint32_t page = 0; page < kPages; ++page) {
    for (uint32_t head = 0; head < kKvHeads; ++head) {
      SCOPED_TRACE(::testing::Message() << "page " << page << " head " << head);
      EXPECT_THAT(found.mean(page).subspan(head * kDim, kDim),
                  Pointwise(FloatNear(1e-5f), reference.Mean(page / 4, head)));
    }
  }
}

TEST(RepresentativesTest, AllTokensStandForABlockThatWasPaidNothing) {
  Representatives found(Spec(), 4, 2);
  std::vector<float> keys(kKvHeads * kRows * kDim, 3);
  std::fill_n(keys.begin(), kRows / 2 * kDim, 1.0f);
  found.AddPage(keys);
  found.Leave();
  ASSERT_EQ(found.first_page(), 4u);
  ASSERT_EQ(found.end_page(), 5u);
  EXPECT_THAT(found.mean(4).first(kDim), Each(2));
  EXPECT_THAT(found.mean(4).subspan(kDim), Each(3));
}

// A page of its own block is followed by a short one of the same block: both get the mean over
// both.
TEST(RepresentativesTest, AShortLastPageIsOfItsBlock) {
  Representatives found(Spec(), 0, 8);
  found.AddPage(std::vector<float>(kKvHeads * kRows * kDim, 1));
  found.AddPage(std::vector<float>(kKvHeads * 8 * kDim, 6));
  found.Leave();
  EXPECT_THAT(found.mean(0), Each(1));
  found.Leave();
  EXPECT_THAT(found.mean(0), Each(2));  // (32 * 1 + 8 * 6) / 40
  EXPECT_THAT(found.mean(1), Each(2));
}

TEST(RepresentativesTest, BlocksEndWithTheirSegment) {
  const auto pages = [](uint32_t page_tokens, uint32_t segment_pages) {
    KvSpec spec = Spec();
    spec.page_tokens = page_tokens;
    spec.segment_pages = segment_pages;
    return Representatives::BlockPages(spec);
  };
  EXPECT_EQ(pages(32, 8), 4u);
  EXPECT_EQ(pages(16, 8), 8u);
  EXPECT_EQ(pages(16, 4), 4u);
  EXPECT_EQ(pages(32, 7), 1u);
  EXPECT_EQ(pages(24, 6), 3u) << "not 5, which is 120 tokens";
  EXPECT_EQ(pages(128, 8), 1u);
  EXPECT_EQ(pages(256, 8), 1u);
}

TEST(RepresentativesTest, WhatIsNoNumberIsPaidNothing) {
  Representatives found(Spec(), 0, 3);
  std::vector<float> keys(kKvHeads * kRows * kDim, 1);
  std::fill_n(keys.begin(), kDim, NAN);
  found.AddPage(keys);
  std::vector<float> query(kKvHeads * kGroup * kDim, 1);
  ASSERT_EQ(found.Attend(query), OkStatus());
  query[0] = NAN;  // First query of head 0.
  ASSERT_EQ(found.Attend(query), OkStatus());
  found.Leave();
  EXPECT_THAT(found.mean(0), Each(1)) << "the first token represents it only if nothing else does";
}

}  // namespace
}  // namespace quire::worker
