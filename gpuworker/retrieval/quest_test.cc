// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/quest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/random.h"
#include "common/page/layout.h"
#include "kernels/api/page_digest.h"
#include "kernels/cpu/cpu_kernels.h"

namespace quire::worker {
namespace {

using ::testing::ElementsAre;

// Two channels, two query heads that share one KV head, pages of two tokens, k_sel = 2.
PolicyContext SmallContext() {
  PolicyContext context;
  context.spec.dtype = DType::kF32;
  context.spec.num_layers = 1;
  context.spec.num_query_heads = 2;
  context.spec.num_kv_heads = 1;
  context.spec.head_dim = 2;
  context.spec.page_tokens = 2;
  context.device = &CpuDevice();
  context.max_context_tokens = 64;
  context.options = {.policy = "quest",
                     .budget_tokens = 8,
                     .sink_tokens = 0,
                     .window_tokens = 4,
                     .uncompressed_layers = {}};
  return context;
}

std::unique_ptr<RetrievalPolicy> Make(const PolicyContext& context) {
  auto policy = MakePolicy(context);
  EXPECT_TRUE(policy.ok()) << policy.status();
  return std::move(policy).value();
}

// Pages A, B and C of the worked example, as units: two key rows, then two value rows.
const std::vector<std::vector<float>> kWorkedPages = {
    {1, 0, .5f, -1, 0, 0, 0, 0}, {0, 2, 0, 1, 0, 0, 0, 0}, {-1, -1, 2, -2, 0, 0, 0, 0}};
const std::vector<float> kWorkedQuery = {1, .5f, -.2f, 3};

std::vector<uint32_t> SelectWorked(kernels::Pooling pooling) {
  PolicyContext context = SmallContext();
  context.options.pooling = pooling;
  const auto policy = Make(context);
  for (uint32_t page = 0; page < kWorkedPages.size(); ++page) {
    EXPECT_EQ(policy->OnPageComplete(0, page, kWorkedPages[page].data()), OkStatus());
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

TEST(QuestPolicyTest, FetchedDigestsSelectAsComputedOnesDoForEveryKind) {
  for (const kernels::DigestKind kind : kernels::kDigestKinds) {
    PolicyContext context = SmallContext();
    context.options.digest = kind;
    const auto computed = Make(context);
    const auto fetched = Make(context);
    SeededRandom random(3);
    const auto elements = static_cast<size_t>(kernels::DigestElements(kind, 2));
    std::vector<float> digests(12 * elements);
    std::vector<float> unit(8);
    for (uint32_t page = 0; page < 12; ++page) {
      for (float& value : unit) value = random.Normal();
      EXPECT_EQ(computed->OnPageComplete(0, page, unit.data()), OkStatus());
      kernels::DigestArgs args = kernels::PageDigestArgs(context.spec, kind);
      args.units = unit.data();
      args.digests = digests.data() + page * elements;
      args.n_units = 1;
      ASSERT_EQ(kernels::CpuReference().digest(args), kernels::OpStatus::kOk);
    }
    ASSERT_EQ(fetched->OnPrefillLayer(0, 12, std::as_bytes(std::span(digests))), OkStatus());
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
    const auto policy = Make(context);
    const std::vector<std::vector<float>> pages = {
        {5, 0, -5, 0, 0, 0, 0, 0}, {2, 0, 1, 0, 0, 0, 0, 0}, {-9, 0, -9, 0, 0, 0, 0, 0}};
    for (uint32_t page = 0; page < 3; ++page) {
      EXPECT_EQ(policy->OnPageComplete(0, page, pages[page].data()), OkStatus());
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
  const auto policy = Make(context);
  EXPECT_FALSE(policy->WantsDigests(0));
  EXPECT_TRUE(
      policy->Select({.q = kWorkedQuery.data(), .candidates = {0, 3}, .max_pages = 2})->at_server);
  EXPECT_FALSE(
      policy->Select({.q = kWorkedQuery.data(), .candidates = {0, 2}, .max_pages = 2})->at_server);
}

TEST(QuestPolicyTest, MissingDigestsAreAnErrorNotAWrongSelection) {
  const auto policy = Make(SmallContext());
  EXPECT_EQ(policy->OnPageComplete(0, 1, kWorkedPages[0].data()).code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(policy->OnPrefillLayer(0, 2, std::vector<std::byte>(7)).code(), StatusCode::kDataLoss);
  EXPECT_EQ(policy->Select({.q = kWorkedQuery.data(), .candidates = {0, 3}, .max_pages = 2})
                .status()
                .code(),
            StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace quire::worker
