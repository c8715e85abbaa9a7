// SPDX-License-Identifier: Apache-2.0
#include "bench/decode/decode_run.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <vector>

#include "kernels/cpu/gemm.h"

namespace quire::bench {
namespace {

using std::chrono::milliseconds;

DecodeRun RunOf(std::vector<int> turn_ms) {
  DecodeRun run;
  for (const int ms : turn_ms) {
    run.turns.push_back(milliseconds(ms));
    run.steps.push_back(milliseconds(ms));
  }
  return run;
}

TEST(DecodeComparisonTest, ARatioIsOfEachWayAtItsBestNumberOfThreads) {
  DecodeComparison comparison;
  comparison.ways["freekv"] = {{1, RunOf({20, 22, 24})}, {2, RunOf({30, 33, 36})}};
  comparison.ways["resident"] = {{1, RunOf({16, 16, 16})}, {2, RunOf({10, 11, 12})}};
  EXPECT_EQ(comparison.BestThreads("freekv"), 1u);
  EXPECT_EQ(comparison.BestThreads("resident"), 2u) << "a slow baseline flatters whoever meets it";
  const std::optional<RatioSpread> ratio = comparison.Ratio("freekv", "resident");
  ASSERT_TRUE(ratio);
  EXPECT_DOUBLE_EQ(ratio->median, 2);
  EXPECT_EQ(ratio->turns, 3u);
  EXPECT_FALSE(comparison.Ratio("freekv", "arkvale")) << "it took no part";
}

TEST(DecodeComparisonTest, OneThreadIsTriedAndThoseThatThereWereAreGivenBack) {
  const uint32_t before = kernels::GemmThreads();
  const std::vector<uint32_t> threads = ThreadsToTry();
  ASSERT_FALSE(threads.empty());
  EXPECT_EQ(threads.front(), 1u);
  EXPECT_EQ(kernels::GemmThreads(), before);
}

TEST(DecodeTurnsTest, ASequenceRunsTheStepsOfEveryNumberOfThreads) {
  const DecodeTurns turns{.warm_up_steps = 8, .turns = 11, .steps_per_turn = 4, .threads = {1, 2}};
  EXPECT_EQ(turns.steps(), 96u);
}

}  // namespace
}  // namespace quire::bench
