// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/policies/freekv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "common/base/random.h"
#include "common/base/threads/executor.h"
#include "gpuworker/retrieval/page_observer.h"
#include "gpuworker/testing/fake_cuda_device.h"
#include "gpuworker/testing/one_layer_policy.h"

namespace quire::worker {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using testing::FakeCudaDevice;
using testing::FakeCudaHostWaits;
using testing::FakeCudaStream;
using ::testing::HasSubstr;
using testing::LateStreams;

constexpr uint32_t kPages = 30;

/// Two KV heads of two query heads, four channels, pages of two tokens, k_sel = 4.
PolicyContext Context(float threshold, const char* policy = "freekv") {
  return testing::OneLayerContext(2, 4, 2,
                                  {.policy = policy,
                                   .budget_tokens = 14,
                                   .sink_tokens = 2,
                                   .window_tokens = 4,
                                   .correction_threshold = threshold});
}

/// A policy whose heads hold, at each token, what the token before selected.
struct Followed {
  std::unique_ptr<RetrievalPolicy> policy;
  uint64_t position = 2 * kPages;
  std::vector<uint64_t> held = {0, 0};

  RetrievalPolicy* operator->() const { return policy.get(); }
  SelectRequest Next(const float* q, PageRange candidates = {1, kPages}) {
    return {.q = q, .candidates = candidates, .max_pages = 4, .position = ++position, .held = held};
  }
  void Hold() { held.assign(2, position); }
};

Followed Make(const PolicyContext& context) {
  auto policy = testing::MakeValid(context);
  SeededRandom random(1);
  std::vector<float> units(2 * 2 * 2 * 4);
  const DeviceBuffer there = *context.device->Allocate(units.size() * sizeof(float));
  EXPECT_EQ(policy->page_observer()->OnPrefillLayer(0, 0, {}), OkStatus());
  for (uint32_t page = 0; page < kPages; ++page) {
    for (float& value : units) value = random.Normal();
    EXPECT_EQ(context.device->CopyToDevice(there.data(), units.data(), there.size_bytes()),
              OkStatus());
    EXPECT_EQ(policy->page_observer()->OnPageComplete(0, page, there.data()), OkStatus());
  }
  return {.policy = std::move(policy)};
}

struct Step {
  std::vector<std::vector<uint32_t>> pages;
  std::vector<bool> blocking;
  bool may_be_late = false;
};
Step Advance(Followed& policy, const std::vector<float>& q, PageRange candidates = {1, kPages}) {
  Step step;
  const SelectRequest request = policy.Next(q.data(), candidates);
  step.may_be_late = policy->MayBeLate(request);
  step.blocking = policy->NeedsBlocking(request).value();
  step.pages = policy->Select(request).value().pages;
  policy.Hold();
  return step;
}

// Head 0 turns by 90 degrees with one of its two queries, head 1 by 60 with both.
const std::vector<float> kBefore = {1, 0, 0, 0, 0, 2, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0};
const std::vector<float> kNow = {
    1, 0, 0, 0, 0, 0, 5, 0, 1, 0, 0, std::sqrt(3.0f), 1, std::sqrt(3.0f), 0, 0};

TEST(FreeKvPolicyTest, CosinesAreAveragedOverTheGroup) {
  for (const auto& [threshold, corrected] : {std::pair{0.49f, false}, {0.51f, true}}) {
    Followed policy = Make(Context(threshold));
    Advance(policy, kBefore);
    EXPECT_THAT(Advance(policy, kNow).blocking, Each(corrected));
  }
}

TEST(FreeKvPolicyTest, HeadsAreCorrectedWhenTheirMeanCosineIsBelowTheThreshold) {
  std::vector<float> now = kNow;
  std::copy_n(kBefore.begin(), 8, now.begin());  // Head 0 stays.
  for (const auto& [threshold, corrected] :
       {std::pair{0.49f, false}, {0.51f, true}, {1.0f - 1e-6f, true}}) {
    Followed policy = Make(Context(threshold));
    Advance(policy, kBefore);
    const Step step = Advance(policy, now);
    EXPECT_THAT(step.blocking, ElementsAre(false, corrected));
    EXPECT_TRUE(step.may_be_late);
  }
}

TEST(FreeKvPolicyTest, HeadsThatDoNotRetrieveSpeculateOnceTheyHoldAChoice) {
  PolicyContext context = Context(1.01f);  // Every head turns.
  context.options.retrieval_heads = {1};
  Followed all = Make(context);
  context.options.correct_retrieval_heads = true;
  Followed one = Make(context);
  EXPECT_THAT(Advance(all, kBefore).blocking, Each(true));
  EXPECT_THAT(Advance(one, kBefore).blocking, Each(true)) << "nothing is held";
  EXPECT_THAT(Advance(all, kNow).blocking, Each(true));
  EXPECT_THAT(Advance(one, kNow).blocking, ElementsAre(false, true));
}

TEST(FreeKvPolicyTest, RetrievalHeadsThatAreNotKnownCannotBeCorrected) {
  PolicyContext context = Context(0.8f);
  context.options.correct_retrieval_heads = true;
  const Status status = MakePolicy(context).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--correct-heads all"));
}

TEST(FreeKvPolicyTest, TheFirstStepOverTheBudgetBlocksWithoutACosine) {
  Followed policy = Make(Context(-1.01f));
  // Four candidates fit: attention is full, and nothing may be missing.
  for (int i = 0; i < 3; ++i) {
    const Step fits = Advance(policy, kBefore, {1, 5});
    EXPECT_THAT(fits.blocking, Each(true));
    EXPECT_FALSE(fits.may_be_late);
  }
  const Step first = Advance(policy, kBefore, {1, 6});
  EXPECT_THAT(first.blocking, Each(true));
  EXPECT_FALSE(first.may_be_late);
  EXPECT_THAT(Advance(policy, kNow, {1, 6}).blocking, Each(false));
}

TEST(FreeKvPolicyTest, ThresholdsBeyondCosinesCorrectAlwaysOrNever) {
  Followed always = Make(Context(1.01f));
  Followed never = Make(Context(-1.01f));
  Followed quest = Make(Context(0.8f, "quest"));
  SeededRandom random(5);
  std::vector<float> q(16);
  for (int step = 0; step < 20; ++step) {
    for (float& value : q) value = random.Normal();
    const auto expected = Advance(quest, q).pages;
    const Step a = Advance(always, q);
    const Step n = Advance(never, q);
    EXPECT_EQ(a.pages, expected);
    EXPECT_EQ(n.pages, expected);
    EXPECT_THAT(a.blocking, Each(true));
    EXPECT_THAT(n.blocking, Each(step == 0));
  }
}

TEST(FreeKvPolicyTest, OnTheCpuNothingIsBegun) {
  Followed policy = Make(Context(-1.01f));
  for (int step = 0; step < 3; ++step) {
    Advance(policy, kBefore);
    EXPECT_FALSE(
        *policy->BeginSelect({.q = kNow.data(), .candidates = {1, kPages}, .max_pages = 4}));
  }
}

TEST(FreeKvPolicyTest, WhatIsBegunIsSelectedWithoutTheHostAndTheQuery) {
  const LateStreams late({FakeCudaStream::kCompute});
  PolicyContext context = Context(-1.01f);
  Followed on_cpu = Make(context);
  Device& device = FakeCudaDevice();
  context.device = &device;
  Followed policy = Make(context);
  const DeviceBuffer q = *device.Allocate(16 * sizeof(float));
  SelectRequest request;
  SeededRandom random(5);
  for (int step = 0; step < 6; ++step) {
    request = policy.Next(q.as<float>());
    std::vector<float> values(16);
    for (float& value : values) value = random.Normal();
    const Step expected = Advance(on_cpu, values);
    ASSERT_EQ(device.CopyToDevice(q.data(), values.data(), q.size_bytes()), OkStatus());
    const std::vector<bool> blocking = policy->NeedsBlocking(request).value();
    EXPECT_EQ(blocking, expected.blocking);
    policy.Hold();
    SelectRequest later = request;
    if (!blocking[0]) {
      const int64_t waits = FakeCudaHostWaits();
      ASSERT_TRUE(*policy->BeginSelect(request));
      EXPECT_EQ(FakeCudaHostWaits(), waits);
      values.assign(16, 0.0f);
      ASSERT_EQ(device.CopyToDevice(q.data(), values.data(), q.size_bytes()), OkStatus());
      later.q = nullptr;
    }
    EXPECT_EQ(policy->Select(later).value().pages, expected.pages) << "step " << step;
  }
  ASSERT_TRUE(*policy->BeginSelect(request));  // It goes with what the device is at.
}

TEST(FreeKvPolicyTest, OnTheProcessorASelectionIsMadeBesideTheModel) {
  ThreadPool beside({.threads = 1, .queue_limit = 1});
  PolicyContext context = Context(-1.01f);
  Followed alone = Make(context);
  context.executor = &beside;
  Followed policy = Make(context);
  std::vector<float> q(16);
  SelectRequest request;
  const std::vector<float> units(2 * 2 * 2 * 4, 1.0f);
  SeededRandom random(5);
  uint32_t begun = 0;
  for (uint32_t step = 0; step < 50; ++step) {
    for (float& value : q) value = random.Normal();
    const Step expected = Advance(alone, q);
    request = policy.Next(q.data());
    EXPECT_EQ(policy->NeedsBlocking(request).value(), expected.blocking);
    policy.Hold();
    SelectRequest later = request;
    if (*policy->BeginSelect(request)) {
      q.assign(16, 0.0f);
      later.q = nullptr;
      // A page that is complete meanwhile is none of the candidates.
      ASSERT_EQ(policy->page_observer()->OnPageComplete(0, kPages + begun++, units.data()),
                OkStatus());
    }
    EXPECT_EQ(policy->Select(later).value().pages, expected.pages) << "step " << step;
  }
  EXPECT_GT(begun, 0u);
  for (float& value : q) value = random.Normal();
  (void)policy->BeginSelect(request);  // It goes when that has ended.
}

TEST(FreeKvPolicyTest, AQueryThatIsNotANumberOrHasNoLengthIsCorrected) {
  Followed policy = Make(Context(0.1f));
  std::vector<float> q = kBefore;
  Advance(policy, q);
  q[0] = NAN;
  std::fill(q.begin() + 8, q.end(), 0.0f);
  EXPECT_THAT(Advance(policy, q).blocking, Each(true));
}

// Part of promise 8: a recall that is late costs accuracy of one step, and not of ever more.
TEST(FreeKvPolicyTest, AQueryIsComparedWithTheOneWhoseSelectionTheHeadHolds) {
  Followed policy = Make(Context(std::cos(0.35f)));
  const auto turned_by = [](float angle) {
    std::vector<float> q(16, 0.0f);
    for (size_t head = 0; head < 4; ++head) {
      q[head * 4] = std::cos(angle);
      q[head * 4 + 1] = std::sin(angle);
    }
    return q;
  };
  // A tenth of a turn at a time: no query is far from the one before it.
  const std::vector<float> first = turned_by(0);
  Advance(policy, first);
  const uint64_t oldest = policy.position;
  for (int step = 1; step <= 3; ++step) {
    EXPECT_THAT(Advance(policy, turned_by(0.1f * static_cast<float>(step))).blocking, Each(false));
    policy.held[0] = oldest;  // Its recall is late.
  }
  EXPECT_THAT(Advance(policy, turned_by(0.4f)).blocking, ElementsAre(true, false));
}

TEST(FreeKvPolicyTest, AHeadWithoutASelectionBlocksAndNoHeadMayBeLateBesideIt) {
  Followed policy = Make(Context(-1.01f));
  Advance(policy, kBefore);
  policy.held[1] = 0;
  const Step step = Advance(policy, kBefore);
  EXPECT_THAT(step.blocking, ElementsAre(false, true));
  EXPECT_FALSE(step.may_be_late);
}

TEST(FreeKvPolicyTest, QueriesThatNobodyHoldsAreForgotten) {
  PolicyContext context = Context(0.8f);
  HeldQueries queries(context.spec, context.device);
  std::vector<uint64_t> held = {1, 1};
  for (uint64_t position = 1; position < 100; ++position) {
    ASSERT_EQ(queries.Keep(position, kBefore.data(), held), OkStatus());
    EXPECT_LE(queries.size(), 4u);
    EXPECT_TRUE(queries.Has(1));
  }
  EXPECT_TRUE(queries.Has(98));
  EXPECT_FALSE(queries.Has(50));
}

}  // namespace
}  // namespace quire::worker
