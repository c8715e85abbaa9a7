// SPDX-License-Identifier: Apache-2.0
#include "bench/trace/zipf_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace quire::bench {
namespace {

uint64_t Tokens(const TraceRequest& request) {
  uint64_t tokens = 0;
  for (const TraceBlock& block : request.blocks) tokens += block.tokens;
  return tokens;
}

/// Number of requests for each document, identified by its first block.
std::map<uint64_t, uint64_t> Popularity(const Trace& trace) {
  std::map<uint64_t, uint64_t> counts;
  for (const TraceRequest& request : trace.requests) ++counts[request.blocks.front().id];
  return counts;
}

TEST(ZipfTraceTest, TheSameSeedGivesTheSameTraceAndAnotherAnother) {
  const auto ids = [](uint64_t seed) {
    std::vector<uint64_t> all;
    for (const auto& request :
         MakeZipfTrace({.documents = 100, .requests = 200, .seed = seed}).requests) {
      all.push_back(request.blocks.front().id);
      all.push_back(Tokens(request));
      all.push_back(static_cast<uint64_t>(request.arrival_micros));
    }
    return all;
  };
  EXPECT_EQ(ids(7), ids(7));
  EXPECT_NE(ids(7), ids(8));
}

// With 1000 documents the k-th has the probability 1 / (k * H), H = 1 + 1/2 + ... + 1/1000 = 7.485.
// The first gets 26718 +- 152 of 200000 requests, the tenth a tenth of them: 2672 +- 51.
TEST(ZipfTraceTest, PopularityFollowsThePowerLaw) {
  const Trace trace = MakeZipfTrace({.documents = 1000, .requests = 200000, .block_tokens = 0});
  const auto counts = Popularity(trace);
  EXPECT_NEAR(static_cast<double>(counts.at(0)), 26718, 6 * 152);
  EXPECT_NEAR(static_cast<double>(counts.at(9)), 2672, 6 * 51);
}

TEST(ZipfTraceTest, AnExponentOfZeroIsUniform) {
  const Trace trace =
      MakeZipfTrace({.documents = 10, .requests = 100000, .zipf = 0, .block_tokens = 0});
  for (const auto& [document, count] : Popularity(trace)) {
    EXPECT_NEAR(static_cast<double>(count), 10000, 6 * 95) << document;
  }
}

// Lengths are exp(N(ln 2048, 1)): half are below 2048, 15.9 % below 2048 / e and as many above 2048
// * e. The exponent is 0, since each document once is enough.
TEST(ZipfTraceTest, LengthsAreLogNormal) {
  const Trace trace =
      MakeZipfTrace({.documents = 20000, .requests = 100000, .zipf = 0, .block_tokens = 0});
  std::map<uint64_t, double> lengths;
  for (const TraceRequest& request : trace.requests) {
    lengths[request.blocks.front().id] = static_cast<double>(Tokens(request));
  }
  ASSERT_GT(lengths.size(), 19000u);
  const auto share_below = [&](double length) {
    const auto below = std::ranges::count_if(
        lengths, [&](const auto& document) { return document.second < length; });
    return static_cast<double>(below) / static_cast<double>(lengths.size());
  };
  EXPECT_NEAR(share_below(2048), 0.5, 0.02);
  EXPECT_NEAR(share_below(2048 / std::exp(1)), 0.159, 0.015);
  EXPECT_NEAR(share_below(2048 * std::exp(1)), 0.841, 0.015);
}

TEST(ZipfTraceTest, RequestsArriveAtTheGivenRateInOrder) {
  const Trace trace = MakeZipfTrace({.documents = 10, .requests = 50000, .requests_per_second = 5});
  EXPECT_TRUE(std::ranges::is_sorted(trace.requests, {}, &TraceRequest::arrival_micros));
  EXPECT_NEAR(static_cast<double>(trace.requests.back().arrival_micros), 1e10, 6 * 4.5e7);
}

// A document of 600 tokens after a prefix of 300, in blocks of 256: 256 + 44, then 256 + 256 + 88.
TEST(ZipfTraceTest, PrefixAndDocumentAreCutIntoBlocksAndThePrefixIsShared) {
  const Trace trace = MakeZipfTrace({.documents = 2,
                                     .requests = 100,
                                     .zipf = 0,
                                     .min_tokens = 600,
                                     .max_tokens = 600,
                                     .prefix_tokens = 300,
                                     .question_tokens = 9,
                                     .block_tokens = 256});
  for (const TraceRequest& request : trace.requests) {
    ASSERT_EQ(request.blocks.size(), 5u);
    const uint32_t tokens[] = {256, 44, 256, 256, 88};
    for (size_t i = 0; i < 5; ++i) EXPECT_EQ(request.blocks[i].tokens, tokens[i]);
    EXPECT_EQ(request.blocks[0].id, 0u);
    EXPECT_EQ(request.blocks[1].id, 1u);
    EXPECT_TRUE(request.blocks[2].id == 2 || request.blocks[2].id == 5);
    EXPECT_EQ(request.new_tokens, 9u);
  }
  // Whole pages of 32: 256 is 8 of them, 44 is 2, 88 is 3. 5 blocks of 256, one of 44, two of 88.
  EXPECT_EQ(DistinctBytes(trace), (5 * 8 + 2 + 2 * 3) * 32 * kKvBytesPerToken);
}

// Promise 6: nothing is unbounded.
TEST(ZipfTraceTest, Promise6TracesThatAreTooLargeOrEmptyAreRefused) {
  EXPECT_TRUE(Validate({}).ok());
  EXPECT_TRUE(Validate({.requests = 10000000, .block_tokens = 0}).ok());
  EXPECT_FALSE(Validate({.documents = 0}).ok());
  EXPECT_FALSE(Validate({.requests = 10000000}).ok());
  EXPECT_FALSE(Validate({.block_tokens = 1}).ok());
  EXPECT_FALSE(Validate({.prefix_tokens = 1 << 20}).ok());
}

TEST(ZipfTraceTest, TheDescriptionGivesTheSeed) {
  EXPECT_NE(MakeZipfTrace({.documents = 1, .requests = 1, .seed = 77}).description.find("seed 77"),
            std::string::npos);
}

}  // namespace
}  // namespace quire::bench
