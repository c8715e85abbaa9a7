// SPDX-License-Identifier: Apache-2.0
//
// quire bench policy as a program, over one page size and one group size of its shortest contexts,
// and one question.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tests/integration/bench_report.h"
#include "tests/kit/paths.h"

namespace quire {
namespace {

using nlohmann::json;
using testing::ExpectMachine;
using testing::ExpectPositive;
using testing::ExpectShares;
using testing::Figure;
using ::testing::IsSupersetOf;
using testing::KeysOf;
using testing::Part;

constexpr int kCells = 5 * 3;    ///< Cosines times jump rates.
constexpr int kCellsOfRate = 4;  ///< Cells of one jump rate, with queries that turn less than tau.
constexpr double kPolicyRounding = 1e-5;
constexpr int kPolicySteps = 8;
constexpr int kSeed = 5;  ///< A seed whose queries jump in so few steps, at both rates.

/// The papers' policies, and the additional trials.
const std::set<std::string> kTrials = {
    "arkvale", "clusterkv",   "freekv",     "full",           "infllm",
    "quest",   "raas",        "razor",      "shadowkv",       "streaming",
    "oracle",  "speculation", "correction", "freekv_tau_0.9", "quest_mean_softmax"};

/// Checks the figures of every trial, from the stream or from the model.
void ExpectFigures(const json& trials) {
  EXPECT_THAT(KeysOf(trials), IsSupersetOf(kTrials));
  const double head_steps = Figure(Part(trials, "full"), "head_steps");
  EXPECT_GT(head_steps, 0);
  for (const auto& [name, figures] : trials.items()) {
    SCOPED_TRACE(name);
    ExpectShares(figures, {"mass", "mass_p5", "oracle_page_recall", "overlap", "corrected_heads",
                           "corrected_layers"});
    EXPECT_GE(Figure(figures, "output_error"), 0);
    EXPECT_GE(Figure(figures, "bytes_per_token"), 0);
    EXPECT_EQ(Figure(figures, "head_steps"), head_steps) << "it did not take part in every step";
  }
}

/// Checks relations between trials of the same queries that hold for any number of steps.
void ExpectRelations(const json& trials) {
  const auto figure = [&](const char* name, const char* key) {
    return Figure(Part(trials, name), key);
  };
  EXPECT_NEAR(figure("full", "mass"), 1, kPolicyRounding);
  EXPECT_NEAR(figure("full", "output_error"), 0, kPolicyRounding);
  EXPECT_EQ(figure("full", "oracle_page_recall"), 1);
  EXPECT_EQ(figure("oracle", "oracle_page_recall"), 1);
  for (const char* name :
       {"arkvale", "quest", "correction", "freekv", "speculation", "streaming"}) {
    EXPECT_GE(figure("oracle", "mass") + kPolicyRounding, figure(name, "mass")) << name;
  }
  EXPECT_GT(figure("quest", "mass"), figure("streaming", "mass"));
  EXPECT_EQ(figure("correction", "mass"), figure("quest_mean_softmax", "mass")) << "the same pages";
  EXPECT_NE(figure("quest", "mass"), figure("quest_mean_softmax", "mass"))
      << "quest pools by the maximum";
  for (const char* name : {"full", "streaming"}) {
    EXPECT_EQ(figure(name, "bytes_per_token"), 0) << name;
  }
  for (const char* name : {"oracle", "arkvale", "quest", "freekv", "speculation"}) {
    EXPECT_GT(figure(name, "bytes_per_token"), 0) << name;
  }
  EXPECT_EQ(figure("speculation", "corrected_heads"), 0);
  EXPECT_EQ(figure("correction", "corrected_heads"), 1);
  EXPECT_LE(figure("freekv", "corrected_heads"), figure("freekv_tau_0.9", "corrected_heads"));
}

/// Checks counts of violated orderings, and the overall verdict.
void ExpectOrderings(const json& report) {
  const json orderings = Part(report, "orderings");
  EXPECT_EQ(Figure(orderings, "cells"), kCells);
  for (const char* key : {"oracle_below_quest", "quest_below_streaming",
                          "correction_differs_from_quest", "speculation_is_not_a_step_old"}) {
    EXPECT_EQ(Figure(orderings, key), 0) << key;
  }
  EXPECT_GT(Figure(orderings, "quest_mass"), Figure(orderings, "streaming_mass"));
  const json by_rate = Part(orderings, "by_jump_rate");
  EXPECT_EQ(KeysOf(by_rate), (std::set<std::string>{"rho=0.01", "rho=0.05"}));
  double corrected = 0, not_improved = 0, freekv = 0, speculation = 0;
  for (const auto& [rate, of_rate] : by_rate.items()) {
    SCOPED_TRACE(rate);
    EXPECT_EQ(Figure(of_rate, "cells"), kCellsOfRate);
    EXPECT_GT(Figure(of_rate, "jumps"), 0) << "corrections have something to pay for";
    EXPECT_GT(Figure(of_rate, "corrected"), 0);
    EXPECT_LE(Figure(of_rate, "corrected"), kCellsOfRate);
    EXPECT_LE(Figure(of_rate, "not_improved"), Figure(of_rate, "corrected"));
    EXPECT_GT(Figure(of_rate, "freekv_mass"), Figure(of_rate, "speculation_mass"));
    corrected += Figure(of_rate, "corrected");
    not_improved += Figure(of_rate, "not_improved");
    freekv += Figure(of_rate, "freekv_mass");
    speculation += Figure(of_rate, "speculation_mass");
  }
  EXPECT_EQ(Figure(orderings, "jumps_corrected"), corrected);
  EXPECT_EQ(Figure(orderings, "jumps_not_improved"), not_improved);
  EXPECT_NEAR(Figure(orderings, "jumps_freekv_mass"), freekv, kPolicyRounding);
  EXPECT_NEAR(Figure(orderings, "jumps_speculation_mass"), speculation, kPolicyRounding);
  EXPECT_EQ(Figure(report, "orderings_hold"), 1);
}

/// Checks the stream's masses by value of a parameter.
void ExpectMassesByValue(const json& report) {
  const json stream = Part(report, "stream"), by_value = Part(report, "stream_mass");
  const std::set<std::string> names = KeysOf(stream);
  EXPECT_EQ(KeysOf(by_value),
            (std::set<std::string>{"c=0.80", "c=0.84", "c=0.90", "c=0.95", "c=0.99", "rho=0.00",
                                   "rho=0.01", "rho=0.05", "N=8192", "G=4", "p=64"}));
  for (const auto& [value, masses] : by_value.items()) {
    SCOPED_TRACE(value);
    EXPECT_EQ(KeysOf(masses), names);
    ExpectShares(masses, {names.begin(), names.end()});
  }
  const json of_all = Part(by_value, "N=8192");
  for (const std::string& name : names) {
    EXPECT_EQ(Figure(of_all, name), Figure(Part(stream, name), "mass")) << name;
  }
}

TEST(BenchPolicyProcessTest, ReportsWhatEveryPolicyCapturesAndRecalls) {
  const json report = testing::BenchReport(
      {"policy", "--model", QUIRE_BUNDLED_MODEL, "--max-tokens", "8192", "--page-tokens", "64",
       "--group-sizes", "4", "--steps", std::to_string(kPolicySteps), "--seed",
       std::to_string(kSeed), "--questions", "1"});
  for (const char* source : {"stream", "model"}) {
    SCOPED_TRACE(source);
    const json trials = Part(report, source);
    ExpectFigures(trials);
    ExpectRelations(trials);
  }
  ExpectOrderings(report);
  ExpectMassesByValue(report);
  EXPECT_EQ(Figure(report, "steps"), kPolicySteps);
  EXPECT_EQ(Figure(report, "questions"), 1);
  EXPECT_EQ(Figure(report, "max_tokens"), 8192);
  EXPECT_EQ(report.value("page_tokens", json()), json::array({64}));
  EXPECT_EQ(report.value("group_sizes", json()), json::array({4}));
  EXPECT_EQ(Figure(report, "key_rank"), 0) << "the published share";
  EXPECT_EQ(Figure(report, "seed"), kSeed);
  ExpectMachine(report);
}

}  // namespace
}  // namespace quire
