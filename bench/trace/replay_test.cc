// SPDX-License-Identifier: Apache-2.0
#include "bench/trace/replay.h"

#include <gtest/gtest.h>

#include "bench/trace/zipf_trace.h"
#include "kvserver/store/policy/eviction/eviction_factory.h"
#include "kvserver/store/policy/eviction/lru.h"

namespace quire::bench {
namespace {

/// Blocks of 10 tokens and 100 bytes; 5 new tokens.
TraceRequest Request(std::vector<uint64_t> ids, uint32_t tenant = 0) {
  TraceRequest request{.tenant = tenant, .new_tokens = 5};
  for (const uint64_t id : ids) request.blocks.push_back({.id = id, .tokens = 10, .bytes = 100});
  return request;
}

ReplayResult ReplayLru(std::vector<TraceRequest> requests, uint64_t cache_bytes) {
  kvserver::Lru lru;
  const Trace trace{.requests = std::move(requests)};
  return Replay(
      trace,
      {.cache_bytes = cache_bytes, .cost = {.seconds_per_token = 1, .seconds_per_pair = 0.1}}, lru);
}

// T(c, n) = n + 0.1 * (c * n + n * n / 2):
//   T(0, 25) = 25 + 31.25 = 56.25, T(10, 15) = 15 + 15 + 11.25 = 41.25,
//   T(20, 5) = 5 + 10 + 1.25 = 16.25.
TEST(PrefillCostTest, AnExampleByHand) {
  const PrefillCost cost{.seconds_per_token = 1, .seconds_per_pair = 0.1};
  EXPECT_DOUBLE_EQ(cost.Seconds(0, 25), 56.25);
  EXPECT_DOUBLE_EQ(cost.Seconds(10, 15), 41.25);
  EXPECT_DOUBLE_EQ(cost.Seconds(20, 5), 16.25);
  EXPECT_DOUBLE_EQ(cost.Seconds(20, 0), 0);
}

TEST(PrefillCostTest, WhatIsComputedInTwoPartsCostsAsMuchAsInOne) {
  const PrefillCost cost;
  EXPECT_NEAR(cost.Seconds(0, 3000) + cost.Seconds(3000, 500), cost.Seconds(0, 3500), 1e-12);
}

// A cache of two blocks; three requests of two blocks:
//   1 2  nothing is cached: 56.25 to compute. 1 and 2 enter.
//   1 3  1 hits, 41.25 left: 15 saved. 3 replaces 2.
//   1 3  both hit, 16.25 left: 40 saved.
TEST(ReplayTest, AnExampleByHand) {
  const ReplayResult result = ReplayLru({Request({1, 2}), Request({1, 3}), Request({1, 3})}, 200);
  EXPECT_EQ(result.tokens, 60u);
  EXPECT_EQ(result.hit_tokens, 30u);
  EXPECT_EQ(result.bytes, 600u);
  EXPECT_EQ(result.hit_bytes, 300u);
  EXPECT_DOUBLE_EQ(result.token_hit_ratio(), 0.5);
  EXPECT_DOUBLE_EQ(result.byte_hit_ratio(), 0.5);
  EXPECT_EQ(result.evictions, 1u);
  EXPECT_EQ(result.most_cached_bytes, 200u);
  EXPECT_DOUBLE_EQ(result.seconds_without_cache, 3 * 56.25);
  EXPECT_DOUBLE_EQ(result.seconds_saved, 15 + 40);
}

// 2 stays cached without 1, which it continues, and is useless.
TEST(ReplayTest, ABlockIsOfNoUseWithoutAllBeforeIt) {
  const ReplayResult result = ReplayLru({Request({2}), Request({1, 2})}, 200);
  EXPECT_EQ(result.hit_tokens, 0u);
  EXPECT_EQ(result.evictions, 0u) << "it is not brought twice";
}

// LRU evicts the chain 1 2 3 from its end: when 4 enters, 3 leaves.
TEST(ReplayTest, AChainLeavesFromItsEnd) {
  const ReplayResult result =
      ReplayLru({Request({1, 2, 3}), Request({4}), Request({1, 2, 3})}, 300);
  EXPECT_EQ(result.hit_tokens, 20u);
}

TEST(ReplayTest, OfARequestLargerThanTheCacheTheBeginningIsKept) {
  const ReplayResult result =
      ReplayLru({Request({1, 2, 3, 4}), Request({1, 2, 3, 4}), Request({9})}, 250);
  EXPECT_EQ(result.hit_tokens, 20u);
  EXPECT_EQ(result.most_cached_bytes, 200u);
}

TEST(ReplayTest, BytesCountByTheirOwnWeight) {
  TraceRequest request = Request({1});
  request.blocks.push_back({.id = 2, .tokens = 10, .bytes = 900});
  const ReplayResult result = ReplayLru({request, request}, 100);
  EXPECT_DOUBLE_EQ(result.token_hit_ratio(), 0.25);
  EXPECT_DOUBLE_EQ(result.byte_hit_ratio(), 0.05);
}

// Promise 7: tenants never share segments.
TEST(ReplayTest, Promise7TheSameIdOfAnotherTenantIsAnotherBlock) {
  const std::vector<TraceRequest> requests = {Request({1}, 0), Request({1}, 1)};
  EXPECT_EQ(ReplayLru(requests, 1000).hit_tokens, 0u);
  EXPECT_EQ(DistinctBytes({.requests = requests}), 200u);
}

TEST(ReplayTest, ABlockThatOccursTwiceInARequestIsCachedOnce) {
  const ReplayResult result = ReplayLru({Request({1, 1, 2}), Request({1, 1, 2})}, 200);
  EXPECT_EQ(result.hit_tokens, 30u);
  EXPECT_EQ(result.most_cached_bytes, 200u);
}

TEST(ReplayTest, AnEmptyTraceHasNoRatios) {
  const ReplayResult result = ReplayLru({}, 100);
  EXPECT_EQ(result.token_hit_ratio(), 0);
  EXPECT_EQ(result.byte_hit_ratio(), 0);
}

// Two traces one after the other, over different documents. LFU keeps the popular ones of the
// first; PGDSF's clock ages them.
TEST(ReplayTest, WhenPopularityChangesAPolicyThatAgesSavesMore) {
  Trace trace = MakeZipfTrace({.documents = 300, .requests = 5000, .seed = 1});
  for (TraceRequest& request :
       MakeZipfTrace({.documents = 300, .requests = 5000, .seed = 2}).requests) {
    request.tenant = 1;
    trace.requests.push_back(std::move(request));
  }
  const auto saved = [&](const char* policy) {
    return Replay(trace, {.cache_bytes = DistinctBytes(trace) / 20},
                  *kvserver::MakeEvictionPolicy(policy).value())
        .seconds_saved;
  };
  EXPECT_GT(saved("pgdsf"), 1.05 * saved("lfu"));
}

// Properties on a generated trace, for every policy.
class EveryPolicyTest : public ::testing::TestWithParam<std::string> {
 protected:
  ReplayResult Run(uint64_t cache_bytes) {
    return Replay(trace_, {.cache_bytes = cache_bytes},
                  *kvserver::MakeEvictionPolicy(GetParam()).value());
  }
  const Trace trace_ = MakeZipfTrace(
      {.documents = 300, .requests = 3000, .median_tokens = 512, .prefix_tokens = 100});
};

TEST_P(EveryPolicyTest, StaysWithinTheCacheAndSavesNoMoreThanOneThatHoldsEverything) {
  const uint64_t all = DistinctBytes(trace_);
  const ReplayResult limit = Run(all);
  EXPECT_EQ(limit.evictions, 0u);
  const ReplayResult tenth = Run(all / 10);
  EXPECT_LE(tenth.most_cached_bytes, all / 10);
  EXPECT_GT(tenth.evictions, 0u);
  EXPECT_GT(tenth.seconds_saved, 0);
  EXPECT_LT(tenth.seconds_saved, limit.seconds_saved);
  EXPECT_LT(limit.seconds_saved, limit.seconds_without_cache);
  EXPECT_EQ(tenth.tokens, limit.tokens);
}

TEST_P(EveryPolicyTest, WithoutACacheNothingIsSaved) {
  const ReplayResult result = Run(0);
  EXPECT_EQ(result.hit_tokens, 0u);
  EXPECT_EQ(result.seconds_saved, 0);
}

TEST_P(EveryPolicyTest, TheSameTraceGivesTheSameResult) {
  const uint64_t bytes = DistinctBytes(trace_) / 20;
  EXPECT_EQ(Run(bytes).seconds_saved, Run(bytes).seconds_saved);
}

INSTANTIATE_TEST_SUITE_P(ByName, EveryPolicyTest,
                         ::testing::ValuesIn(kvserver::EvictionPolicyNames()),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace quire::bench
