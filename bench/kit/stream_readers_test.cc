// SPDX-License-Identifier: Apache-2.0
#include "bench/kit/stream_readers.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "common/base/random.h"

namespace quire::bench {
namespace {

void ExpectSums(StreamReader read) {
  SeededRandom random(5);
  std::vector<uint64_t> words(3000), next(700);
  for (uint64_t& word : words) word = random.Next();
  // Whole vectors, parts of them, and less than the prefetch distance.
  for (const size_t size : {0, 1, 3, 4, 31, 32, 33, 511, 1024, 2999, 3000}) {
    const std::span<const uint64_t> some = std::span(words).first(size);
    const uint64_t sum = std::accumulate(some.begin(), some.end(), uint64_t{0});
    EXPECT_EQ(read(some, next), sum) << size << " words";
    EXPECT_EQ(read(some, {}), sum) << size << " words, nothing next";
  }
}

TEST(StreamReadersTest, WordsAreAllRead) { ExpectSums(SumWords); }

TEST(StreamReadersTest, VectorsAreAllRead) {
  if (VectorReader() == nullptr) GTEST_SKIP() << "built without Highway";
  ExpectSums(VectorReader());
}

TEST(StreamReadersTest, ProductsAreAllMade) {
  if (VectorProducts() == nullptr) GTEST_SKIP() << "built without Highway";
  EXPECT_EQ(VectorProducts()(0), 0);
  for (const uint64_t products : {4096, 65536}) {
    EXPECT_EQ(VectorProducts()(products), static_cast<float>(products) / 8) << products;
  }
}

}  // namespace
}  // namespace quire::bench
