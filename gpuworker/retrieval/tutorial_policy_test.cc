// SPDX-License-Identifier: Apache-2.0
//
// The policy that docs/tutorials/add-a-policy.md adds does what the tutorial says. Its code is
// taken from there (cmake/tutorial_policy.cmake), and this program's registry has it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "gpuworker/retrieval/policy_conformance.h"

namespace quire::worker {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

INSTANTIATE_TEST_SUITE_P(Tutorial, PolicyConformance, ::testing::Values("recent"));

TEST(TutorialPolicyTest, ItIsRegisteredInItsPlace) {
  const std::vector<std::string_view> names = PolicyNames();
  EXPECT_EQ(std::ranges::count(names, "recent"), 1);
  EXPECT_TRUE(std::ranges::is_sorted(names));
}

TEST(TutorialPolicyTest, ItSelectsThePagesJustBeforeTheWindow) {
  PolicyContext context;
  context.spec.num_layers = 1;
  context.spec.num_query_heads = 4;
  context.spec.num_kv_heads = 2;
  context.spec.head_dim = 4;
  context.spec.page_tokens = 16;
  context.device = &CpuDevice();
  context.max_context_tokens = 4096;
  const auto options = AsPublished({.policy = "recent"}, context.spec.page_tokens);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->budget_tokens, 2048u);
  context.options = *options;
  const auto policy = MakePolicy(context);
  ASSERT_TRUE(policy.ok()) << policy.status();
  const std::vector<float> q(16);
  const SelectRequest request{
      .layer = 0, .q = q.data(), .candidates = {.first = 1, .end = 200}, .max_pages = 3};
  EXPECT_THAT((*policy)->Select(request)->pages, Each(ElementsAre(197, 198, 199)));
  EXPECT_THAT(*(*policy)->NeedsBlocking(request), Each(true));
}

}  // namespace
}  // namespace quire::worker
