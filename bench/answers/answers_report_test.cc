// SPDX-License-Identifier: Apache-2.0
#include "bench/answers/answers_report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace quire::bench {
namespace {

constexpr size_t kSamples = 40;

/// Makes the first `right` of all samples right.
CellAnswers Answers(const AnswerCell& cell, size_t right) {
  CellAnswers answers{.cell = cell, .right = std::vector<uint8_t>(kSamples), .costs = {}};
  std::fill_n(answers.right.begin(), right, uint8_t{1});
  answers.costs["recall"] = {.moved = {.units = 4000},
                             .steps = 100,
                             .sequences = 2,
                             .head_steps = 800,
                             .blocking_heads = 200};
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

TEST(AnswersReportTest, ACellAsksWithItsRankOfKeysAndSaysWhichItWas) {
  const std::vector<std::string> policies = {"quest", "shadowkv"};
  const std::vector<double> budgets = {12.5};
  AnswerResults results{.samples = std::vector<AnswerSample>(kSamples, {"recall", ""}),
                        .cells = {}};
  for (AnswerCell& cell : MakeCells(policies, budgets)) {
    if (cell.policy == "shadowkv") cell.key_rank = 64;
    const auto retrieval = CellRetrieval(cell, 4096, 16);
    ASSERT_TRUE(retrieval.ok()) << retrieval.status();
    EXPECT_EQ(retrieval->key_rank, cell.key_rank);
    results.cells.push_back(Answers(cell, 30));
  }
  const cli::Json cells = AnswersJson(results, {.resamples = 50})["cells"];
  EXPECT_EQ(cells["shadowkv_12_5"]["key_rank"], 64);
  EXPECT_FALSE(cells["quest_12_5"].contains("key_rank"));
}

TEST(AnswersReportTest, ACellHasWhatWasPublishedForItsPolicyUnderTheCommonBudget) {
  for (const std::string& policy : AnswerPolicies()) {
    SCOPED_TRACE(policy);
    const std::vector<std::string> policies = {policy};
    const std::vector<double> budgets = {12.5};
    AnswerCell cell = MakeCells(policies, budgets).back();
    if (policy == kCalibrated) {
      EXPECT_EQ(CellRetrieval(cell, 4096, 16).status().code(), StatusCode::kInvalidArgument)
          << "nobody has found its threshold";
      cell.tau = 0.25;
    }
    const auto retrieval = CellRetrieval(cell, 4096, 16);
    ASSERT_TRUE(retrieval.ok()) << retrieval.status();
    EXPECT_EQ(retrieval->policy, cell.tau ? "freekv" : policy);
    EXPECT_EQ(retrieval->budget_tokens, policy == "full" ? 64u : 512u);
    EXPECT_EQ(retrieval->sink_tokens, 16u);
    EXPECT_EQ(retrieval->window_tokens, 32u);
    EXPECT_EQ(retrieval->select_tokens, 0u);
    EXPECT_TRUE(retrieval->uncompressed_layers.empty());
    EXPECT_EQ(retrieval->pooling,
              policy == "quest" ? kernels::Pooling::kMaxS : kernels::Pooling::kAvgSM);
    EXPECT_EQ(retrieval->correct_retrieval_heads, policy == kRetrievalHeads);
    if (cell.tau) {
      EXPECT_EQ(retrieval->correction_threshold, static_cast<float>(*cell.tau));
    }
  }
}

TEST(AnswersReportTest, ThresholdsOfFreeKvAreCellsOfTheirOwn) {
  const std::vector<std::string> policies = {"freekv", kSpeculating, kCalibrated, "quest"};
  const std::vector<double> budgets = {6.25, 12.5};
  AnswerResults results{.samples = std::vector<AnswerSample>(kSamples, {"recall", ""}),
                        .cells = {}};
  for (AnswerCell& cell : MakeCells(policies, budgets)) {
    if (cell.policy == kCalibrated) cell.tau = 0.25;
    results.cells.push_back(Answers(cell, 30));
  }
  const cli::Json json = AnswersJson(results, {.resamples = 50});
  for (const char* budget : {"6_25", "12_5"}) {
    const auto cell = [&](const std::string& policy) {
      return json["cells"][policy + "_" + budget];
    };
    EXPECT_FLOAT_EQ(cell("freekv")["tau"], 0.8f);
    EXPECT_EQ(cell("freekv_tau_-1")["tau"], -1);
    EXPECT_EQ(cell("freekv_calibrated")["tau"], 0.25);
    EXPECT_FALSE(cell("quest").contains("tau"));
    EXPECT_EQ(cell("freekv_calibrated")["policy"], "freekv_calibrated");
  }
  EXPECT_EQ(AnswersPlot(json).lines.size(), 4u) << "a line for each";
}

// A quarter of the heads block in recall; the other set has no selections.
TEST(AnswersReportTest, EveryCellSaysWhichShareOfTheHeadsBlocked) {
  const std::vector<std::string> policies = {"freekv", "streaming"};
  const std::vector<double> budgets = {12.5};
  AnswerResults results{.samples = std::vector<AnswerSample>(kSamples, {"recall", ""}),
                        .cells = {}};
  for (const AnswerCell& cell : MakeCells(policies, budgets)) {
    CellAnswers answers = Answers(cell, 30);
    answers.costs["multi"] = {.steps = 100, .head_steps = 200, .blocking_heads = 200};
    if (cell.policy != "freekv") {
      for (auto& [set, costs] : answers.costs) costs.head_steps = costs.blocking_heads = 0;
    }
    results.cells.push_back(std::move(answers));
  }
  const cli::Json json = AnswersJson(results, {.resamples = 50});
  const cli::Json& cell = json["cells"]["freekv_12_5"];
  EXPECT_DOUBLE_EQ(cell["blocking_heads"], 0.4);
  EXPECT_EQ(cell["head_steps"], 1000);
  EXPECT_DOUBLE_EQ(cell["sets"]["recall"]["blocking_heads"], 0.25);
  EXPECT_DOUBLE_EQ(cell["sets"]["multi"]["blocking_heads"], 1);
  for (const char* key : {"full", "streaming_12_5"}) {
    EXPECT_EQ(json["cells"][key]["blocking_heads"], 0) << key;
    EXPECT_EQ(json["cells"][key]["head_steps"], 0) << key;
  }
  EXPECT_NE(AnswersMarkdown(json).find("| blocked % |"), std::string::npos);
  EXPECT_NE(AnswersMarkdown(json).find("| 40.0 |"), std::string::npos) << AnswersMarkdown(json);
}

TEST(AnswersReportTest, WhatIsLostIsDrawnAgainstTheHeadsThatBlock) {
  const std::vector<std::string> policies = {"freekv", kRetrievalHeads, "quest"};
  const std::vector<double> budgets = {12.5, 25};
  AnswerResults results{.samples = std::vector<AnswerSample>(kSamples, {"recall", ""}),
                        .cells = {}};
  for (const AnswerCell& cell : MakeCells(policies, budgets)) {
    const bool alone = cell.policy == kRetrievalHeads;
    results.cells.push_back(Answers(cell, cell.policy == "full" ? 30 : alone ? 28 : 32));
    if (alone) results.cells.back().costs["recall"].blocking_heads = 80;
  }
  cli::Json json = AnswersJson(results, {.resamples = 50});
  json["cells"]["freekv_25"].erase("blocking_heads");  // As in an older report.
  const cli::ScatterPlot plot = BlockingPlot(json);
  ASSERT_EQ(plot.lines.size(), 2u) << "other policies always block, or never";
  EXPECT_EQ(plot.lines[0].name, "freekv");
  ASSERT_EQ(plot.lines[0].points.size(), 1u);
  EXPECT_DOUBLE_EQ(plot.lines[0].points[0].x, 25);
  EXPECT_DOUBLE_EQ(plot.lines[0].points[0].y, 0) << "two more are right than with full attention";
  EXPECT_EQ(plot.lines[1].name, kRetrievalHeads);
  ASSERT_EQ(plot.lines[1].points.size(), 2u);
  EXPECT_DOUBLE_EQ(plot.lines[1].points[1].x, 10);
  EXPECT_DOUBLE_EQ(plot.lines[1].points[1].y, 5);
  EXPECT_EQ(plot.lines[1].points[1].label, "25 % of the context");
}

TEST(AnswersReportTest, AReportThatDoesNotSayWhatBlockedIsShownWithoutIt) {
  const std::vector<std::string> policies = {"freekv"};
  const std::vector<double> budgets = {12.5};
  AnswerResults results{.samples = std::vector<AnswerSample>(kSamples, {"recall", ""}),
                        .cells = {}};
  for (const AnswerCell& cell : MakeCells(policies, budgets)) {
    results.cells.push_back(Answers(cell, 30));
  }
  cli::Json json = AnswersJson(results, {.resamples = 50});
  ASSERT_NE(AnswersMarkdown(json).find("| 25.0 |"), std::string::npos) << AnswersMarkdown(json);
  for (cli::Json& cell : json["cells"]) cell.erase("blocking_heads");
  EXPECT_EQ(CheckAnswersReport(json), OkStatus());
  EXPECT_EQ(AnswersMarkdown(json).find("| 25.0 |"), std::string::npos);
  json["cells"]["freekv_12_5"]["blocking_heads"] = cli::Json::array();
  EXPECT_EQ(CheckAnswersReport(json).code(), StatusCode::kInvalidArgument);
}

// The first half of the long set's answers are right; in the other sets all are.
TEST(AnswersReportTest, TheLongSetHasFiguresOfItsOwn) {
  AnswerResults results{.samples = std::vector<AnswerSample>(kSamples, {"recall", ""}),
                        .cells = {}};
  for (size_t i = 0; i < kSamples; ++i) {
    results.samples.push_back({kLongSet, i < kSamples / 2 ? kLongEarly : kLongLate});
  }
  const std::vector<std::string> policies = {"freekv"};
  const std::vector<double> budgets = {12.5};
  for (const AnswerCell& cell : MakeCells(policies, budgets)) {
    CellAnswers answers = Answers(cell, kSamples);
    answers.right.resize(2 * kSamples);
    std::fill_n(answers.right.begin() + kSamples, kSamples / 2, uint8_t{1});
    answers.costs[kLongSet] = {
        .moved = {.units = 90000}, .steps = 900, .generated = 500, .sequences = 1};
    results.cells.push_back(std::move(answers));
  }
  const cli::Json json = AnswersJson(results, {.resamples = 50});
  for (const std::string key : {"full", "freekv_12_5"}) {
    SCOPED_TRACE(key);
    EXPECT_DOUBLE_EQ(json[key], 1) << "of recall alone";
    EXPECT_DOUBLE_EQ(json["long_" + key], 0.5);
    EXPECT_DOUBLE_EQ(json["long_early_" + key], 1);
    EXPECT_DOUBLE_EQ(json["long_late_" + key], 0);
    const cli::Json& cell = json["cells"][key];
    EXPECT_EQ(cell["samples"], kSamples);
    EXPECT_DOUBLE_EQ(cell["recalled_bytes_per_token"], 40) << "of recall alone";
    EXPECT_EQ(cell["sets"][kLongSet]["samples"], kSamples);
    EXPECT_EQ(cell["sets"][kLongSet]["steps"], 900);
    EXPECT_EQ(cell["sets"][kLongSet]["generated"], 500);
  }
  EXPECT_EQ(json["samples"], kSamples);
}

TEST(AnswersReportTest, TheLongSetAloneIsTheOverallOne) {
  const std::vector<std::string> no_policies;
  const std::vector<double> budgets = {12.5};
  AnswerResults results{.samples = std::vector<AnswerSample>(kSamples, {kLongSet, kLongEarly}),
                        .cells = {}};
  results.samples.back().place = kLongLate;
  CellAnswers answers = Answers(MakeCells(no_policies, budgets)[0], 30);
  answers.costs = {{kLongSet, answers.costs.at("recall")}};
  results.cells.push_back(std::move(answers));
  const cli::Json json = AnswersJson(results, {.resamples = 50});
  EXPECT_DOUBLE_EQ(json["full"], 0.75);
  EXPECT_DOUBLE_EQ(json["long_full"], 0.75);
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

// 100 tokens ran: 40 bytes of units each, 10 of digests, and 50 at the opening of sequences.
TEST(AnswersReportTest, WhatMovedIsUnitsDigestsAndWhatWasReadAtTheStart) {
  const std::vector<std::string> policies = {"quest", "streaming"};
  const std::vector<double> budgets = {12.5, 25};
  AnswerResults results{.samples = std::vector<AnswerSample>(kSamples, {"recall", ""}),
                        .cells = {}};
  for (const AnswerCell& cell : MakeCells(policies, budgets)) {
    results.cells.push_back(Answers(cell, 20));
    if (cell.policy != "quest") continue;
    results.cells.back().costs["recall"].moved.digests = 1000;
    results.cells.back().costs["recall"].moved.at_open = 5000;
  }
  const cli::Json json = AnswersJson(results, {.resamples = 50});
  const cli::ScatterPlot plot = AnswersPlot(json);
  ASSERT_EQ(plot.levels.size(), 1u);
  EXPECT_DOUBLE_EQ(plot.levels[0].y, 50);
  ASSERT_EQ(plot.lines.size(), 2u);
  for (const auto& [line, bytes] : {std::pair(0, 100.0), {1, 40.0}}) {
    ASSERT_EQ(plot.lines[line].points.size(), 2u);
    for (const cli::PlotPoint& point : plot.lines[line].points) {
      EXPECT_DOUBLE_EQ(point.x, bytes / 1024) << plot.lines[line].name;
      EXPECT_DOUBLE_EQ(point.y, 50);
    }
  }
  const std::string markdown = AnswersMarkdown(json);
  EXPECT_NE(markdown.find("| recalled per token | digests | at open | moved per token |"),
            std::string::npos)
      << markdown;
  EXPECT_NE(markdown.find("| 40 B | 10 B | 50 B | 100 B |"), std::string::npos) << markdown;
  EXPECT_NE(markdown.find("| 40 B | 0 B | 0 B | 40 B |"), std::string::npos) << markdown;
}

cli::Json ReportOf(const std::vector<std::string>& policies, size_t right) {
  const std::vector<double> budgets = {12.5};
  AnswerResults results{.samples = std::vector<AnswerSample>(kSamples, {"recall", ""}),
                        .cells = {}};
  for (const AnswerCell& cell : MakeCells(policies, budgets)) {
    results.cells.push_back(Answers(cell, cell.policy == "full" ? 38 : right));
  }
  return AnswersJson(results, {.resamples = 50});
}

TEST(AnswersReportTest, CellsOfAnEarlierReportAreShownBesideTheNewOnes) {
  cli::Json json = ReportOf({"quest"}, 30);
  ASSERT_EQ(AddEarlierCells(ReportOf({"quest", "freekv"}, 38), &json), OkStatus());
  EXPECT_DOUBLE_EQ(json["quest_12_5"], 0.75) << "of this run";
  EXPECT_DOUBLE_EQ(json["freekv_12_5"], 0.95);
  EXPECT_EQ(json["earlier_cells"], cli::Json::array({"freekv_12_5"}));
  EXPECT_EQ(json["freekv_within_1_point_at_12_5"], 1);
  EXPECT_NE(AnswersMarkdown(json).find("freekv"), std::string::npos);
}

TEST(AnswersReportTest, AnEarlierReportOverOtherQuestionsOrADamagedOneIsRefused) {
  const cli::Json report = ReportOf({"quest"}, 30);
  cli::Json other = report, less = report, damaged = ReportOf({"freekv"}, 30);
  other["questions_seed"] = 7;
  less["full"] = 0.5;
  damaged["cells"]["freekv_12_5"].erase("sets");
  damaged["cells"]["freekv_12_5"]["loss_95"] = "none";
  for (const auto& [earlier, what] : {std::pair(other, "questions_seed 7"),
                                      {less, "full 0.5"},
                                      {damaged, "damaged"},
                                      {cli::Json("text"), "no cells"}}) {
    cli::Json json = report;
    const Status status = AddEarlierCells(earlier, &json);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << what;
    EXPECT_NE(Message(status).find(what), std::string_view::npos) << status;
    EXPECT_EQ(json, report) << "nothing is taken of it";
  }
}

TEST(AnswersReportTest, WhatTableAndPlotCannotBeMadeOfIsNoReport) {
  const cli::Json report = ReportOf({"quest"}, 30);
  EXPECT_EQ(CheckAnswersReport(report), OkStatus());
  for (const char* key : {"policy", "budget_percent", "accuracy", "accuracy_95", "loss", "loss_95",
                          "sets", "steps", "bytes_units", "bytes_digests", "bytes_at_open"}) {
    cli::Json damaged = report;
    damaged["cells"]["quest_12_5"].erase(key);
    EXPECT_EQ(CheckAnswersReport(damaged).code(), StatusCode::kInvalidArgument) << key;
    damaged["cells"]["quest_12_5"][key] = cli::Json::array({cli::Json::object()});
    EXPECT_EQ(CheckAnswersReport(damaged).code(), StatusCode::kInvalidArgument) << key;
  }
  for (const cli::Json& other : {cli::Json(), cli::Json("text"), cli::Json::object(),
                                 cli::Json({{"cells", cli::Json::array()}})}) {
    EXPECT_EQ(CheckAnswersReport(other).code(), StatusCode::kInvalidArgument) << other;
  }
}

}  // namespace
}  // namespace quire::bench
