// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/batch/batch_scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "common/base/random.h"
#include "common/base/retry_hint.h"
#include "gpuworker/cache/budget_cache.h"
#include "gpuworker/device/device.h"

namespace quire::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Id = BatchScheduler::Id;
using Plan = BatchScheduler::Plan;
using Request = BatchScheduler::Request;
using Share = BatchScheduler::Share;

/// `fixed` bytes of budget, and one byte for each page of 4 tokens that is kept anyway.
Request Sequence(uint64_t pending, uint64_t fixed = 10, uint64_t page_bytes = 0,
                 uint32_t priority = 0) {
  return {.priority = priority,
          .demand = {.fixed_bytes = fixed, .page_bytes = page_bytes, .page_tokens = 4},
          .num_tokens = 0,
          .pending = pending,
          .most_tokens = 100,
          .max_step_tokens = 8};
}

TEST(BatchSchedulerTest, EachThatRunsGetsATokenAndPromptsShareTheRestByRank) {
  BatchScheduler scheduler({.max_running = 3, .step_tokens = 16, .slot_bytes = 100});
  const Id a = *scheduler.Add(Sequence(20));
  const Id b = *scheduler.Add(Sequence(1));
  const Id c = *scheduler.Add(Sequence(20));
  const Id d = *scheduler.Add(Sequence(1));
  const Plan plan = scheduler.Next();
  EXPECT_THAT(plan.start, ElementsAre(a, b, c));
  EXPECT_THAT(plan.run, ElementsAre(Share{a, 8}, Share{b, 1}, Share{c, 7}));
  EXPECT_EQ(scheduler.running(), 3u);
  EXPECT_EQ(scheduler.waiting(), 1u);
  EXPECT_EQ(scheduler.slot_bytes(), 30u);
  scheduler.Remove(b);
  EXPECT_THAT(scheduler.Next().start, ElementsAre(d));
}

TEST(BatchSchedulerTest, WhoDoesNotFitLetsNobodyPass) {
  BatchScheduler scheduler({.max_running = 4, .step_tokens = 16, .slot_bytes = 100});
  const Id a = *scheduler.Add(Sequence(1, 60));
  const Id big = *scheduler.Add(Sequence(1, 50));
  const Id small = *scheduler.Add(Sequence(1, 10));
  EXPECT_THAT(scheduler.Next().run, ElementsAre(Share{a, 1}));
  EXPECT_THAT(scheduler.Next().run, ElementsAre(Share{a, 1}));
  scheduler.Remove(a);
  EXPECT_THAT(scheduler.Next().start, ElementsAre(big, small));
}

TEST(BatchSchedulerTest, TheLastToComeIsTheFirstToGoAndComesBackInItsRank) {
  BatchScheduler scheduler({.max_running = 4, .step_tokens = 16, .slot_bytes = 60});
  const Id a = *scheduler.Add(Sequence(1, 10, 2));
  const Id b = *scheduler.Add(Sequence(1, 10, 2));
  EXPECT_THAT(scheduler.Next().start, ElementsAre(a, b));
  Plan plan;
  while (plan.preempt.empty()) {
    for (const Share& share : plan.run) scheduler.OnStepDone(share.id, share.tokens, 1);
    plan = scheduler.Next();
  }
  EXPECT_THAT(plan.preempt, ElementsAre(b));
  EXPECT_THAT(plan.run, ElementsAre(Share{a, 1}));
  EXPECT_EQ(scheduler.preempted(), 1u);
  const Id later = *scheduler.Add(Sequence(1, 10, 2));
  EXPECT_THAT(scheduler.Next().start, IsEmpty());
  scheduler.Remove(a);
  EXPECT_THAT(scheduler.Next().start, ElementsAre(b, later));
}

TEST(BatchSchedulerTest, AHigherPriorityTakesTheSlotsOfALowerOneUpToItsHeadStart) {
  BatchScheduler scheduler(
      {.max_running = 1, .max_waiting = 100, .step_tokens = 16, .slot_bytes = 100});
  const Id low = *scheduler.Add(Sequence(1));
  EXPECT_THAT(scheduler.Next().start, ElementsAre(low));
  const Id high = *scheduler.Add(Sequence(1, 10, 0, 1));
  const Plan plan = scheduler.Next();
  EXPECT_THAT(plan.preempt, ElementsAre(low));
  EXPECT_THAT(plan.start, ElementsAre(high));
  scheduler.Remove(high);
  // A sequence that comes kHeadStart later goes behind at any priority.
  for (uint64_t i = 0; i < BatchScheduler::kHeadStart; ++i) {
    scheduler.Remove(*scheduler.Add(Sequence(1)));
  }
  const Id late = *scheduler.Add(Sequence(1, 10, 0, 1));
  EXPECT_THAT(scheduler.Next().start, ElementsAre(low));
  scheduler.Remove(low);
  EXPECT_THAT(scheduler.Next().start, ElementsAre(late));
}

TEST(BatchSchedulerTest, AChunkIsCutToTheMemoryThereIs) {
  BatchScheduler scheduler({.max_running = 2, .step_tokens = 64, .slot_bytes = 26});
  Request request = Sequence(24, 10, 1);
  request.most_tokens = 24;
  request.max_step_tokens = 24;
  const Id a = *scheduler.Add(request);
  const Id b = *scheduler.Add(request);
  EXPECT_THAT(scheduler.Next().run, ElementsAre(Share{a, 20}, Share{b, 4}));
}

TEST(BatchSchedulerTest, APromptThatIsDenseTakesItsPagesUntilItHasRun) {
  BatchScheduler scheduler({.max_running = 2, .step_tokens = 64, .slot_bytes = 100});
  Request request = Sequence(30, 10);
  request.most_tokens = 60;
  request.max_step_tokens = 2;
  request.dense = {.page_bytes = 2, .page_tokens = 1};
  request.dense_tokens = 20;  // Ten more came back with it.
  const Id id = *scheduler.Add(request);
  EXPECT_THAT(scheduler.Next().run, ElementsAre(Share{id, 20})) << "not beyond the prompt";
  scheduler.OnStepDone(id, 12, 18);
  EXPECT_EQ(scheduler.slot_bytes(), 2 * PooledPages(12));
  request.dense_tokens = 4;
  request.pending = 4;
  scheduler.Remove(*scheduler.Add(request));
  EXPECT_EQ(
      (Request{.demand = request.demand, .dense = request.dense, .dense_tokens = 4}.BytesAt(4)),
      10u)
      << "it takes that next";
  EXPECT_THAT(scheduler.Next().run, ElementsAre(Share{id, 8}));
  scheduler.OnStepDone(id, 8, 10);
  EXPECT_EQ(scheduler.slot_bytes(), 10u);
  EXPECT_THAT(scheduler.Next().run, ElementsAre(Share{id, 2}));
  scheduler.Restart(id, 0, 30, 0);
  EXPECT_THAT(scheduler.Next().run, ElementsAre(Share{id, 2})) << "the device had no room for it";
}

TEST(BatchSchedulerTest, OneThatLostWhatItRanWaitsInItsRank) {
  BatchScheduler scheduler({.max_running = 1, .step_tokens = 16, .slot_bytes = 100});
  const Id a = *scheduler.Add(Sequence(4));
  const Id b = *scheduler.Add(Sequence(4));
  EXPECT_THAT(scheduler.Next().run, ElementsAre(Share{a, 4}));
  scheduler.OnStepDone(a, 4, 1);
  scheduler.Restart(a, 0, 5, 0);
  const Plan plan = scheduler.Next();
  EXPECT_THAT(plan.start, ElementsAre(a));
  EXPECT_THAT(plan.run, ElementsAre(Share{a, 5}));
  EXPECT_EQ(scheduler.waiting(), 1u);
  scheduler.Remove(b);
}

TEST(BatchSchedulerTest, TheQueueIsBoundedAndSaysWhenToTryAgain) {
  BatchScheduler scheduler(
      {.max_running = 1, .max_waiting = 2, .step_tokens = 1, .slot_bytes = 100});
  ASSERT_TRUE(scheduler.Add(Sequence(1)).ok());
  scheduler.Next();
  ASSERT_TRUE(scheduler.Add(Sequence(1)).ok());
  ASSERT_TRUE(scheduler.Add(Sequence(1)).ok());
  const Status refused = scheduler.Add(Sequence(1)).status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(RetryAfter(refused).has_value());
}

TEST(BatchSchedulerTest, WhatCouldNeverRunIsRefusedWithTheNumbers) {
  BatchScheduler scheduler({.slot_bytes = 30});
  EXPECT_TRUE(scheduler.Add(Sequence(1, 30)).ok());
  const Status refused = scheduler.Add(Sequence(1, 10, 1)).status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_FALSE(RetryAfter(refused).has_value());
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("up to 100 tokens needs 35 bytes of slots, more than the 30 that this "
                        "worker has, where 80 tokens fit"));
  EXPECT_THAT(std::string(scheduler.Add(Sequence(1, 1, 0, 16)).status().message()),
              HasSubstr("priority is 16; it must be 0 to 15"));
}

TEST(BatchSchedulerTest, BadLimitsAreNamed) {
  EXPECT_EQ(Validate(BatchLimits{}), OkStatus());
  EXPECT_THAT(std::string(Validate({.max_running = 0}).message()),
              HasSubstr("max_running is 0; it must be 1 to 256"));
  EXPECT_THAT(std::string(Validate({.step_tokens = 513}).message()),
              HasSubstr("step_tokens is 513; it must be 1 to 512"));
  EXPECT_THAT(std::string(Validate({.max_running = 8, .step_tokens = 7}).message()),
              HasSubstr("step_tokens is 7, less than max_running (8)"));
}

/// A batch that is carried out as it is planned.
class Simulation {
 public:
  Simulation(const BatchLimits& limits, uint64_t seed)
      : limits_(limits), random_(seed), scheduler_(limits) {}

  void MaybeArrive() {
    if (random_.Below(3) != 0) return;
    Request request;
    request.priority = static_cast<uint32_t>(random_.Below(3));
    request.demand = {
        .fixed_bytes = 1 + random_.Below(30), .page_bytes = random_.Below(3), .page_tokens = 4};
    request.num_tokens = random_.Below(20);
    request.pending = 1 + random_.Below(20);
    request.most_tokens = request.num_tokens + request.pending + random_.Below(20);
    request.max_step_tokens = static_cast<uint32_t>(1 + random_.Below(8));
    const SlotDemand dense{.page_bytes = 1 + random_.Below(6), .page_tokens = 4};
    if (random_.Below(2) == 0 && dense.Bytes(request.pending) <= limits_.slot_bytes) {
      request.num_tokens = 0;
      request.dense = dense;
      request.dense_tokens = request.pending;
    }
    const auto id = scheduler_.Add(request);
    if (!id.ok()) return;
    live_[*id] = request;
  }

  void Step() {
    const Plan plan = scheduler_.Next();
    ASSERT_EQ(plan.empty(), live_.empty());
    for (const Id id : plan.preempt) ASSERT_EQ(running_.erase(id), 1u);
    for (const Id id : plan.start) ASSERT_TRUE(running_.insert(id).second);
    ASSERT_LE(running_.size(), limits_.max_running);
    uint64_t tokens = 0;
    uint64_t bytes = 0;
    std::set<Id> ran;
    for (const Share& share : plan.run) {
      const Request& request = live_.at(share.id);
      ASSERT_TRUE(running_.contains(share.id));
      ASSERT_TRUE(ran.insert(share.id).second);
      ASSERT_GE(share.tokens, 1u);
      ASSERT_LE(share.tokens, request.pending);
      if (request.is_dense()) {
        ASSERT_LE(request.num_tokens + share.tokens, request.dense_tokens);
      } else {
        ASSERT_LE(share.tokens, request.max_step_tokens);
      }
      tokens += share.tokens;
      bytes += request.BytesAt(request.num_tokens + share.tokens);
    }
    ASSERT_EQ(ran, running_);  // Every sequence with slots runs.
    ASSERT_LE(tokens, limits_.step_tokens);
    ASSERT_LE(bytes, limits_.slot_bytes);
    for (const Share& share : plan.run) Run(share);
    // Those whose prompt has run have taken the slots of their budget by now.
    bytes = 0;
    for (const Id id : running_) bytes += live_.at(id).BytesAt(live_.at(id).num_tokens);
    ASSERT_LE(bytes, limits_.slot_bytes);
    ASSERT_EQ(scheduler_.slot_bytes(), bytes);
  }

  bool idle() const { return live_.empty(); }
  uint64_t finished() const { return finished_; }

 private:
  void Run(const Share& share) {
    Request& request = live_.at(share.id);
    request.num_tokens += share.tokens;
    request.pending -= share.tokens;
    if (request.pending == 0 && request.num_tokens < request.most_tokens) request.pending = 1;
    if (request.pending > 0) {
      scheduler_.OnStepDone(share.id, share.tokens, request.pending);
      return;
    }
    scheduler_.Remove(share.id);
    live_.erase(share.id);
    running_.erase(share.id);
    ++finished_;
  }

  const BatchLimits limits_;
  SeededRandom random_;
  BatchScheduler scheduler_;
  std::map<Id, Request> live_;
  std::set<Id> running_;
  uint64_t finished_ = 0;
};

TEST(BatchSchedulerTest, OverRandomLoadsEveryPlanKeepsTheLimitsAndEverybodyFinishes) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    SeededRandom random(seed);
    const auto running = static_cast<uint32_t>(1 + random.Below(6));
    Simulation simulation({.max_running = running,
                           .max_waiting = static_cast<uint32_t>(1 + random.Below(8)),
                           .step_tokens = static_cast<uint32_t>(running + random.Below(20)),
                           .slot_bytes = 60 + random.Below(100)},
                          seed + 1000);
    for (int step = 0; step < 300; ++step) {
      simulation.MaybeArrive();
      ASSERT_NO_FATAL_FAILURE(simulation.Step());
    }
    // Without new sequences everything ends: each step runs a token of a sequence, and nothing is
    // lost.
    for (int step = 0; step < 2000 && !simulation.idle(); ++step) {
      ASSERT_NO_FATAL_FAILURE(simulation.Step());
    }
    EXPECT_TRUE(simulation.idle());
    EXPECT_GT(simulation.finished(), 10u);
  }
}

TEST(SlotDemandTest, IsWhatACacheAllocatesHoweverItCameToItsLength) {
  KvSpec spec;
  spec.model = "test";
  spec.num_layers = 3;
  spec.num_query_heads = 2;
  spec.num_kv_heads = 1;
  spec.head_dim = 8;
  spec.page_tokens = 4;
  const CacheLayout budget{.sink_pages = 1, .window_pages = 2, .selectable_pages = 3};
  const std::vector<CacheLayout> layouts = {{.everything = true}, budget, {.everything = true}};
  const SlotDemand demand = SlotDemand::Of(layouts, spec);
  const std::vector<float> row(spec.head_dim);
  for (const uint64_t start : {0, 1, 61, 64, 509, 2000}) {
    SCOPED_TRACE(start);
    const auto cache = *BudgetCache::Create(spec, &CpuDevice(), layouts);
    ASSERT_EQ(cache->StartAt(start), OkStatus());
    EXPECT_EQ(cache->pool_bytes(), demand.Bytes(start));
    for (uint64_t tokens = start + 1; tokens <= start + 600; ++tokens) {
      for (uint32_t layer = 0; layer < spec.num_layers; ++layer) {
        ASSERT_EQ(cache->AppendTokens(layer, row.data(), row.data(), 1), OkStatus());
      }
      ASSERT_EQ(cache->pool_bytes(), demand.Bytes(tokens)) << tokens;
    }
  }
}

TEST(SlotDemandTest, PoolsThatGrowTakeUpToASixteenthMoreThanTheirPages) {
  for (uint64_t pages = 0; pages < 5000; ++pages) {
    ASSERT_GE(PooledPages(pages), pages);
    ASSERT_LE(PooledPages(pages), pages + pages / 16);
    ASSERT_LE(PooledPages(pages), PooledPages(pages + 1));
  }
  EXPECT_EQ(PooledPages(1000), 1024u);  // In steps of a sixteenth of 512.
}

}  // namespace
}  // namespace quire::worker
