// SPDX-License-Identifier: Apache-2.0
#include "bench/answers_report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace quire::bench {
namespace {

constexpr size_t kSamples = 40;

/// The first `right` of all samples are right.
CellAnswers Answers(const AnswerCell& cell, size_t right) {
  CellAnswers answers{.cell = cell, .right = std::vector<uint8_t>(kSamples), .costs = {}};
  std::fill_n(answers.right.begin(), right, uint8_t{1});
  answers.costs["recall"] = {.moved = {.units = 4000}, .steps = 100, .sequences = 2};
  return answers;
}

TEST(AnswersReportTest, AccuraciesHaveTheirKeysByPolicyAndBudget) {
  const std::vector<std::string> policies = {"freekv", "full", "quest"};
  const std::vector<double> budgets = {6.25, 12.5, 25};
  AnswerResults results{.samples = std::vector<AnswerSample>(kSamples, {"recall", ""}),
                        .cells = {}};
  size_t right = kSamples;
  for (const AnswerCell& cell : MakeCells(policies, budgets)) {
    results.cells.push_back(Answers(cell, right--));
  }
  const cli::Json json = AnswersJson(results, {.resamples = 50});

  const char* const keys[] = {"full",       "freekv_6_25", "freekv_12_5", "freekv_25",
                              "quest_6_25", "quest_12_5",  "quest_25"};
  ASSERT_EQ(results.cells.size(), std::size(keys));
  ASSERT_EQ(json["cells"].size(), std::size(keys));
  right = kSamples;
  for (const char* key : keys) {
    SCOPED_TRACE(key);
    const double share = static_cast<double>(right--) / kSamples;
    ASSERT_TRUE(json.contains(key)) << json;
    EXPECT_DOUBLE_EQ(json[key], share);
    const cli::Json& cell = json["cells"][key];
    EXPECT_DOUBLE_EQ(cell["accuracy"], share);
    EXPECT_NEAR(cell["loss"], 1 - share, 1e-12);
    EXPECT_EQ(cell["samples"], kSamples);
    EXPECT_DOUBLE_EQ(cell["recalled_bytes_per_token"], 40);
  }
  EXPECT_EQ(json["samples"], kSamples);
}

// Two of 40 are five points.
TEST(AnswersReportTest, TheGoalIsMetWithinOnePoint) {
  const std::vector<std::string> policies = {"freekv"};
  const std::vector<double> budgets = {12.5};
  for (const size_t lost : {0, 2}) {
    AnswerResults results{.samples = std::vector<AnswerSample>(kSamples, {"recall", ""}),
                          .cells = {}};
    const std::vector<AnswerCell> cells = MakeCells(policies, budgets);
    results.cells.push_back(Answers(cells[0], 38));
    results.cells.push_back(Answers(cells[1], 38 - lost));
    const cli::Json json = AnswersJson(results, {.resamples = 50});
    EXPECT_EQ(json["freekv_within_1_point_at_12_5"], lost == 0 ? 1 : 0);
    EXPECT_NEAR(json["full_minus_freekv_12_5"], static_cast<double>(lost) / kSamples, 1e-12);
  }
}

}  // namespace
}  // namespace quire::bench
