// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/freekv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "common/base/executor.h"
#include "common/base/random.h"
#include "gpuworker/testing/fake_cuda_device.h"
#include "gpuworker/testing/one_layer_policy.h"

namespace quire::worker {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using testing::FakeCudaDevice;
using testing::FakeCudaHostWaits;
using testing::FakeCudaStream;
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

std::unique_ptr<RetrievalPolicy> Make(const PolicyContext& context) {
  auto policy = testing::MakeValid(context);
  SeededRandom random(1);
  std::vector<float> units(2 * 2 * 2 * 4);
  const DeviceBuffer there = *context.device->Allocate(units.size() * sizeof(float));
  EXPECT_EQ(policy->OnPrefillLayer(0, 0, {}), OkStatus());
  for (uint32_t page = 0; page < kPages; ++page) {
    for (float& value : units) value = random.Normal();
    EXPECT_EQ(context.device->CopyToDevice(there.data(), units.data(), there.size_bytes()),
              OkStatus());
    EXPECT_EQ(policy->OnPageComplete(0, page, there.data()), OkStatus());
  }
  return policy;
}

struct Step {
  std::vector<std::vector<uint32_t>> pages;
  std::vector<bool> blocking;
  bool may_be_late = false;
};
Step Advance(RetrievalPolicy& policy, const std::vector<float>& q,
             PageRange candidates = {1, kPages}) {
  Step step;
  const SelectRequest request{.q = q.data(), .candidates = candidates, .max_pages = 4};
  step.blocking = policy.NeedsBlocking(request).value();
  step.pages = policy.Select(request).value().pages;
  step.may_be_late = policy.MayBeLate(0);
  return step;
}

// Head 0 turns by 90 degrees with one of its two queries, head 1 by 60 with both.
const std::vector<float> kBefore = {1, 0, 0, 0, 0, 2, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0};
const std::vector<float> kNow = {
    1, 0, 0, 0, 0, 0, 5, 0, 1, 0, 0, std::sqrt(3.0f), 1, std::sqrt(3.0f), 0, 0};

TEST(FreeKvPolicyTest, CosinesAreAveragedOverTheGroup) {
  for (const auto& [threshold, corrected] : {std::pair{0.49f, false}, {0.51f, true}}) {
    const auto policy = Make(Context(threshold));
    Advance(*policy, kBefore);
    EXPECT_THAT(Advance(*policy, kNow).blocking, Each(corrected));
  }
}

TEST(FreeKvPolicyTest, HeadsAreCorrectedWhenTheirMeanCosineIsBelowTheThreshold) {
  std::vector<float> now = kNow;
  std::copy_n(kBefore.begin(), 8, now.begin());  // Head 0 stays.
  for (const auto& [threshold, corrected] :
       {std::pair{0.49f, false}, {0.51f, true}, {1.0f - 1e-6f, true}}) {
    const auto policy = Make(Context(threshold));
    Advance(*policy, kBefore);
    const Step step = Advance(*policy, now);
    EXPECT_THAT(step.blocking, ElementsAre(false, corrected));
    EXPECT_TRUE(step.may_be_late);
  }
}

TEST(FreeKvPolicyTest, TheFirstStepOverTheBudgetBlocksWithoutACosine) {
  const auto policy = Make(Context(-1.01f));
  // Four candidates fit: attention is full, and nothing may be missing.
  for (int i = 0; i < 3; ++i) {
    const Step fits = Advance(*policy, kBefore, {1, 5});
    EXPECT_THAT(fits.blocking, Each(true));
    EXPECT_FALSE(fits.may_be_late);
  }
  const Step first = Advance(*policy, kBefore, {1, 6});
  EXPECT_THAT(first.blocking, Each(true));
  EXPECT_FALSE(first.may_be_late);
  EXPECT_THAT(Advance(*policy, kNow, {1, 6}).blocking, Each(false));
}

TEST(FreeKvPolicyTest, ThresholdsBeyondCosinesCorrectAlwaysOrNever) {
  const auto always = Make(Context(1.01f));
  const auto never = Make(Context(-1.01f));
  const auto quest = Make(Context(0.8f, "quest"));
  SeededRandom random(5);
  std::vector<float> q(16);
  for (int step = 0; step < 20; ++step) {
    for (float& value : q) value = random.Normal();
    const auto expected = Advance(*quest, q).pages;
    const Step a = Advance(*always, q);
    const Step n = Advance(*never, q);
    EXPECT_EQ(a.pages, expected);
    EXPECT_EQ(n.pages, expected);
    EXPECT_THAT(a.blocking, Each(true));
    EXPECT_THAT(n.blocking, Each(step == 0));
  }
}

TEST(FreeKvPolicyTest, OnTheCpuNothingIsBegun) {
  const auto policy = Make(Context(-1.01f));
  for (int step = 0; step < 3; ++step) {
    Advance(*policy, kBefore);
    EXPECT_FALSE(
        *policy->BeginSelect({.q = kNow.data(), .candidates = {1, kPages}, .max_pages = 4}));
  }
}

TEST(FreeKvPolicyTest, WhatIsBegunIsSelectedWithoutTheHostAndTheQuery) {
  const LateStreams late({FakeCudaStream::kCompute});
  PolicyContext context = Context(-1.01f);
  const auto on_cpu = Make(context);
  Device& device = FakeCudaDevice();
  context.device = &device;
  const auto policy = Make(context);
  const DeviceBuffer q = *device.Allocate(16 * sizeof(float));
  const SelectRequest request{.q = q.as<float>(), .candidates = {1, kPages}, .max_pages = 4};
  SeededRandom random(5);
  for (int step = 0; step < 6; ++step) {
    std::vector<float> values(16);
    for (float& value : values) value = random.Normal();
    const Step expected = Advance(*on_cpu, values);
    ASSERT_EQ(device.CopyToDevice(q.data(), values.data(), q.size_bytes()), OkStatus());
    const std::vector<bool> blocking = policy->NeedsBlocking(request).value();
    EXPECT_EQ(blocking, expected.blocking);
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
  const auto alone = Make(context);
  context.executor = &beside;
  const auto policy = Make(context);
  std::vector<float> q(16);
  const SelectRequest request{.q = q.data(), .candidates = {1, kPages}, .max_pages = 4};
  const std::vector<float> units(2 * 2 * 2 * 4, 1.0f);
  SeededRandom random(5);
  uint32_t begun = 0;
  for (uint32_t step = 0; step < 50; ++step) {
    for (float& value : q) value = random.Normal();
    const Step expected = Advance(*alone, q);
    EXPECT_EQ(policy->NeedsBlocking(request).value(), expected.blocking);
    SelectRequest later = request;
    if (*policy->BeginSelect(request)) {
      q.assign(16, 0.0f);
      later.q = nullptr;
      // A page that is complete meanwhile is none of the candidates.
      ASSERT_EQ(policy->OnPageComplete(0, kPages + begun++, units.data()), OkStatus());
    }
    EXPECT_EQ(policy->Select(later).value().pages, expected.pages) << "step " << step;
  }
  EXPECT_GT(begun, 0u);
  for (float& value : q) value = random.Normal();
  (void)policy->BeginSelect(request);  // It goes when that has ended.
}

TEST(FreeKvPolicyTest, AQueryThatIsNotANumberOrHasNoLengthIsCorrected) {
  const auto policy = Make(Context(0.1f));
  std::vector<float> q = kBefore;
  Advance(*policy, q);
  q[0] = NAN;
  std::fill(q.begin() + 8, q.end(), 0.0f);
  EXPECT_THAT(Advance(*policy, q).blocking, Each(true));
}

}  // namespace
}  // namespace quire::worker
