// SPDX-License-Identifier: Apache-2.0
#include "bench/policy/policy_trial.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "bench/policy/oracle_policy.h"
#include "common/base/random.h"
#include "common/page/layout.h"

namespace quire::bench {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

constexpr uint32_t kPages = 40;
constexpr int kSteps = 12;

/// Two KV heads of two query heads, eight channels, pages of four tokens; k_sel = 6.
class PolicyTrialTest : public ::testing::Test {
 protected:
  PolicyTrialTest() {
    spec_.dtype = DType::kF32;
    spec_.num_layers = 1;
    spec_.num_query_heads = 4;
    spec_.num_kv_heads = 2;
    spec_.head_dim = 8;
    spec_.page_tokens = 4;
    units_.resize(kPages * 2 * 2 * 4 * 8);
    SeededRandom random(1);
    for (float& value : units_) value = random.Normal();
    rows_.emplace(*PagedRows::Make(spec_, units_));
  }

  worker::PolicyContext Context(const std::string& policy, float threshold = 0.8f) const {
    return {.spec = spec_,
            .device = &worker::CpuDevice(),
            .max_context_tokens = kPages * 4,
            .options = {.policy = policy,
                        .budget_tokens = 36,
                        .sink_tokens = 4,
                        .window_tokens = 8,
                        .uncompressed_layers = {},
                        .correction_threshold = threshold}};
  }
  /// Follows queries that turn a little from step to step; every other step has one more token.
  PolicyTrial Follow(const worker::PolicyContext& context,
                     std::unique_ptr<worker::RetrievalPolicy> policy) {
    uint64_t tokens = kPages * 4 - kSteps;
    auto trial = PolicyTrial::Make(context, *rows_, std::move(policy), tokens);
    EXPECT_TRUE(trial.ok()) << trial.status();
    SeededRandom random(2);
    std::vector<float> queries(4 * 8);
    for (int step = 0; step < kSteps; ++step) {
      for (float& value : queries) value = 0.9f * value + 0.5f * random.Normal();
      tokens += step % 2;
      EXPECT_EQ(exact_.Compute(*rows_, tokens, queries, 1.0f), OkStatus());
      EXPECT_EQ(trial->Step(exact_, queries, 1.0f), OkStatus());
    }
    return *std::move(trial);
  }
  PolicyTrial Follow(const std::string& policy, float threshold = 0.8f) {
    const worker::PolicyContext context = Context(policy, threshold);
    return Follow(context, *worker::MakePolicy(context));
  }

  KvSpec spec_;
  std::vector<float> units_;
  std::optional<PagedRows> rows_;
  ExactAttention exact_;
};

TEST_F(PolicyTrialTest, HoldingEverythingLosesNothing) {
  const PolicyTrial trial = Follow("full");
  EXPECT_THAT(trial.figures().mean_mass(), DoubleNear(1, 1e-5));
  EXPECT_THAT(trial.figures().mean_error(), DoubleNear(0, 1e-5));
  EXPECT_EQ(trial.figures().mean_recall(), 1);
  EXPECT_EQ(trial.figures().bytes, 0u);
}

TEST_F(PolicyTrialTest, TheOracleCapturesMostAndAWindowLeast) {
  const worker::PolicyContext context = Context("quest");
  const PolicyTrial oracle = Follow(context, std::make_unique<OraclePolicy>(context, &exact_));
  const PolicyTrial quest = Follow("quest");
  const PolicyTrial streaming = Follow("streaming");
  EXPECT_EQ(oracle.figures().mean_recall(), 1);
  EXPECT_GT(oracle.figures().mean_mass(), quest.figures().mean_mass());
  EXPECT_GT(quest.figures().mean_mass(), streaming.figures().mean_mass());
  EXPECT_LT(oracle.figures().mean_error(), streaming.figures().mean_error());
  EXPECT_EQ(quest.figures().head_rate(), 1);
}

TEST_F(PolicyTrialTest, FreeKvIsQuestWhenItAlwaysCorrectsAndAStepOldWhenItNeverDoes) {
  const PolicyTrial quest = Follow("quest");
  const PolicyTrial always = Follow("freekv", 1.01f);
  const PolicyTrial never = Follow("freekv", -1.01f);
  EXPECT_EQ(always.history(), quest.history());
  EXPECT_EQ(always.figures().bytes, quest.figures().bytes);
  EXPECT_EQ(never.history().front(), quest.history().front());
  for (int step = 1; step < kSteps; ++step) {
    EXPECT_EQ(never.history()[step], quest.history()[step - 1]) << step;
  }
  EXPECT_EQ(never.figures().head_rate(), 0);
  EXPECT_LE(never.figures().bytes, quest.figures().bytes);
}

TEST_F(PolicyTrialTest, EveryPolicyFollowsAStreamOfGrowingLength) {
  for (const std::string_view name : worker::PolicyNames()) {
    SCOPED_TRACE(name);
    const PolicyTrial trial = Follow(std::string(name));
    EXPECT_EQ(trial.figures().head_steps, 2u * kSteps);
    EXPECT_EQ(trial.figures().masses.size(), 4u * kSteps);
    EXPECT_GT(trial.figures().mean_mass(), 0);
    EXPECT_LE(trial.figures().mean_mass(), 1 + 1e-5);
    EXPECT_LE(trial.figures().mean_overlap(), 1);
  }
}

TEST_F(PolicyTrialTest, BytesAreThoseOfUnitsThatWereNotResident) {
  const PolicyTrial quest = Follow("quest");
  const auto& history = quest.history();
  // A lower bound: the difference to the step before, less what an earlier step left in the slots.
  uint64_t differ = 0;
  for (int step = 1; step < kSteps; ++step) {
    for (int head = 0; head < 2; ++head) {
      for (const uint32_t page : history[step][head]) {
        differ += std::ranges::count(history[step - 1][head], page) == 0;
      }
    }
  }
  // Every selection uses all slots, so nothing is left from earlier steps.
  EXPECT_EQ(quest.figures().bytes, differ * 2 * 4 * 8 * 2);
}

TEST(ExactAttentionTest, BestPagesHoldTheMostOfTheGroup) {
  KvSpec spec;
  spec.dtype = DType::kF32;
  spec.num_layers = 1;
  spec.num_query_heads = 1;
  spec.num_kv_heads = 1;
  spec.head_dim = 2;
  spec.page_tokens = 1;
  // Pages of one token: key, value.
  const std::vector<float> units = {0, 0, 1, 0, 1, 0, 0, 1, 3, 0, 2, 2, 2, 0, 0, 0};
  const PagedRows rows = *PagedRows::Make(spec, units);
  ExactAttention exact;
  ASSERT_EQ(exact.Compute(rows, 4, std::vector<float>{1, 0}, 1.0f), OkStatus());
  EXPECT_THAT(exact.BestPages(0, {0, 4}, 2), ElementsAre(2, 3));
  const double total = 1 + std::exp(1) + std::exp(2) + std::exp(3);
  EXPECT_NEAR(exact.head(0).masses[2], std::exp(3) / total, 1e-6);
  EXPECT_NEAR(exact.head(0).out[0], (1 + 2 * std::exp(3)) / total, 1e-5);
  EXPECT_NEAR(exact.head(0).parts[2 * 2], 2 * std::exp(3) / total, 1e-5);
}

}  // namespace
}  // namespace quire::bench
