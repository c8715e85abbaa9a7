// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/policies/quest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/random.h"
#include "gpuworker/retrieval/page_observer.h"
#include "gpuworker/testing/one_layer_policy.h"
#include "kernels/api/page_digest.h"
#include "kernels/cpu/cpu_kernels.h"
#include "quire/layout.h"

namespace quire::worker {
namespace {

using ::testing::ElementsAre;

// Two channels, two query heads that share one KV head, pages of two tokens, k_sel = 2.
PolicyContext SmallContext() {
  return testing::OneLayerContext(
      1, 2, 2, {.policy = "quest", .budget_tokens = 8, .sink_tokens = 0, .window_tokens = 4});
}

// Pages A, B and C of the worked example, as units: two key rows, then two value rows.
const std::vector<std::vector<float>> kWorkedPages = {
    {1, 0, .5f, -1, 0, 0, 0, 0}, {0, 2, 0, 1, 0, 0, 0, 0}, {-1, -1, 2, -2, 0, 0, 0, 0}};
const std::vector<float> kWorkedQuery = {1, .5f, -.2f, 3};

std::vector<uint32_t> SelectWorked(kernels::Pooling pooling) {
  PolicyContext context = SmallContext();
  context.options.pooling = pooling;
  const auto policy = testing::MakeValid(context);
  for (uint32_t page = 0; page < kWorkedPages.size(); ++page) {
    EXPECT_EQ(policy->page_observer()->OnPageComplete(0, page, kWorkedPages[page].data()),
              OkStatus());
  }
  auto selection =
      policy->Select({.layer = 0, .q = kWorkedQuery.data(), .candidates = {0, 3}, .max_pages = 2});
  EXPECT_TRUE(selection.ok()) << selection.status();
  return selection->pages.at(0);
}

// The published example: raw means let one head dominate (B, A), the softmax mean does not (B, C).
TEST(QuestPolicyTest, PoolingDecidesTheWorkedExample) {
  EXPECT_THAT(SelectWorked(kernels::Pooling::kAvgSM), ElementsAre(1, 2));
  EXPECT_THAT(SelectWorked(kernels::Pooling::kAvgS), ElementsAre(0, 1));
  EXPECT_THAT(SelectWorked(kernels::Pooling::kMaxS), ElementsAre(1, 2));
}

// Eight pages are stored, four the sequence appends: candidates are of both.
TEST(QuestPolicyTest, StoredDigestsSelectAsComputedOnesDoForEveryKind) {
  for (const kernels::DigestKind kind : kSelectingKinds) {
    PolicyContext context = SmallContext();
    context.options.digest = kind;
    const auto computed = testing::MakeValid(context);
    const auto fetched = testing::MakeValid(context);
    SeededRandom random(3);
    const auto elements = static_cast<size_t>(kernels::DigestElements(kind, 2));
    std::vector<float> digests(12 * elements);
    std::vector<float> units(12 * 8);
    for (float& value : units) value = random.Normal();
    for (uint32_t page = 0; page < 12; ++page) {
      EXPECT_EQ(computed->page_observer()->OnPageComplete(0, page, &units[8 * page]), OkStatus());
      kernels::DigestArgs args = kernels::PageDigestArgs(context.spec, kind);
      args.units = &units[8 * page];
      args.digests = digests.data() + page * elements;
      args.n_units = 1;
      ASSERT_EQ(kernels::CpuReference().digest(args), kernels::OpStatus::kOk);
    }
    const auto stored =
        StoredDigests::Make(context.spec, kind, &CpuDevice(), 8,
                            std::as_bytes(std::span(digests)).first(8 * elements * sizeof(float)));
    ASSERT_TRUE(stored.ok()) << stored.status();
    ASSERT_EQ(fetched->page_observer()->OnPrefillLayer(0, 8, *stored), OkStatus());
    for (uint32_t page = 8; page < 12; ++page) {
      EXPECT_EQ(fetched->page_observer()->OnPageComplete(0, page, &units[8 * page]), OkStatus());
    }
    for (int i = 0; i < 20; ++i) {
      std::vector<float> q(4);
      for (float& value : q) value = random.Normal();
      const SelectRequest request{.layer = 0, .q = q.data(), .candidates = {1, 11}, .max_pages = 2};
      EXPECT_EQ(computed->Select(request)->pages, fetched->Select(request)->pages);
    }
  }
}

// One channel has a page of wide keys whose mean is low, and one of narrow keys whose mean is high.
TEST(QuestPolicyTest, TheKindOfDigestDecidesWhatIsSelected) {
  const auto selected = [](kernels::DigestKind kind) {
    PolicyContext context = SmallContext();
    context.options.digest = kind;
    const auto policy = testing::MakeValid(context);
    const std::vector<std::vector<float>> pages = {
        {5, 0, -5, 0, 0, 0, 0, 0}, {2, 0, 1, 0, 0, 0, 0, 0}, {-9, 0, -9, 0, 0, 0, 0, 0}};
    for (uint32_t page = 0; page < 3; ++page) {
      EXPECT_EQ(policy->page_observer()->OnPageComplete(0, page, pages[page].data()), OkStatus());
    }
    const std::vector<float> q = {1, 0, 1, 0};
    return policy->Select({.layer = 0, .q = q.data(), .candidates = {0, 3}, .max_pages = 1})
        ->pages.at(0);
  };
  EXPECT_THAT(selected(kernels::DigestKind::kMinMax), ElementsAre(0));
  EXPECT_THAT(selected(kernels::DigestKind::kMean), ElementsAre(1));
  EXPECT_THAT(selected(kernels::DigestKind::kCentreRadius), ElementsAre(0));
}

TEST(QuestPolicyTest, ServerSideSelectionNeedsNoDigestsAndAsksOnlyWhenThereIsAChoice) {
  PolicyContext context = SmallContext();
  context.options.side = SelectionSide::kServer;
  const auto policy = testing::MakeValid(context);
  EXPECT_FALSE(policy->page_observer()->WantedDigests(0));
  EXPECT_TRUE(
      policy->Select({.q = kWorkedQuery.data(), .candidates = {0, 3}, .max_pages = 2})->at_server);
  EXPECT_FALSE(
      policy->Select({.q = kWorkedQuery.data(), .candidates = {0, 2}, .max_pages = 2})->at_server);
}

TEST(QuestPolicyTest, MissingDigestsAreAnErrorNotAWrongSelection) {
  const auto policy = testing::MakeValid(SmallContext());
  EXPECT_EQ(policy->page_observer()->OnPageComplete(0, 1, kWorkedPages[0].data()).code(),
            StatusCode::kFailedPrecondition);
  const KvSpec spec = SmallContext().spec;
  EXPECT_EQ(StoredDigests::Make(spec, kernels::DigestKind::kMinMax, &CpuDevice(), 2,
                                std::vector<std::byte>(7))
                .status()
                .code(),
            StatusCode::kDataLoss);
  EXPECT_EQ(policy->page_observer()->OnPrefillLayer(0, 2, nullptr).code(), StatusCode::kDataLoss);
  EXPECT_EQ(policy->Select({.q = kWorkedQuery.data(), .candidates = {0, 3}, .max_pages = 2})
                .status()
                .code(),
            StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace quire::worker
