// SPDX-License-Identifier: Apache-2.0
//
// quire bench elastic as a program, over a short context, a few steps and two questions of one
// document. The fault rate is high enough for each kind of fault.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/integration/bench_report.h"
#include "tests/kit/paths.h"
#include "tests/kit/temp_dir.h"
#include "transport/ucx/ucx.h"

namespace quire {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using testing::ChildResult;
using testing::ExpectMachine;
using testing::ExpectPositive;
using testing::ExpectShares;
using testing::Figure;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::Part;
using testing::TempDir;

constexpr int kElasticSteps = 48;
constexpr int kContextTokens = 4096;
constexpr int kQuestions = 2;
constexpr int kDecodedTokens = 40;
constexpr double kFaultRate = 0.05;
constexpr double kElasticRounding = 1e-9;

/// Expects the moved share of the selection above 0 and at most 1.
void ExpectMoved(const json& report) {
  const std::vector<std::string> of_model = {"moved_ratio_model", "moved_ratio_model_answers",
                                             "moved_ratio_model_with_questions"};
  ExpectPositive(report, of_model);
  ExpectShares(report, of_model);
  const json pulled = Part(report, "pulled_walk");
  for (const json& walk : {report, pulled}) {
    const std::vector<std::string> ratios = {"moved_ratio", "moved_ratio_c90", "moved_of_budget",
                                             "moved_of_budget_c90"};
    ExpectPositive(walk, ratios);
    ExpectShares(walk, ratios);
    EXPECT_LT(Figure(walk, "moved_ratio"), Figure(walk, "moved_ratio_c90"))
        << "queries of a smaller cosine select more that is new";
  }
  EXPECT_LT(Figure(pulled, "moved_ratio"), Figure(report, "moved_ratio"))
      << "the plain figure is not that of the walk that is pulled to its topic";
}

/// The share that stays complements the share that moves; of the budget, sinks and window stay too.
void ExpectOverlaps(const json& report) {
  const json shape = Part(report, "shape");
  const double selected = Figure(shape, "selected_pages");
  const double budget = selected + Figure(shape, "sink_pages") + Figure(shape, "window_pages");
  for (const json& walk : {report, Part(report, "pulled_walk")}) {
    for (const std::string of : {"", "_c90"}) {
      const double moved = Figure(walk, "moved_ratio" + of);
      const std::string overlap = "overlap" + (of.empty() ? "_c95" : of);
      EXPECT_NEAR(Figure(walk, overlap), 1 - moved, kElasticRounding);
      EXPECT_NEAR(Figure(walk, "moved_of_budget" + of), moved * selected / budget,
                  kElasticRounding);
      EXPECT_NEAR(Figure(walk, "budget_" + overlap), 1 - moved * selected / budget,
                  kElasticRounding);
    }
  }
}

/// Expects the bytes of the units counted in the ratio.
void ExpectBytes(const json& report) {
  const json shape = Part(report, "shape");
  const double resent = kElasticSteps * Figure(shape, "layers") * Figure(shape, "kv_heads") *
                        Figure(shape, "selected_pages") * Figure(shape, "unit_bytes");
  for (const json& walk : {report, Part(report, "pulled_walk")}) {
    EXPECT_EQ(Figure(walk, "bytes_resent_c95"), resent);
    EXPECT_NEAR(Figure(walk, "bytes_moved_c95"), Figure(walk, "moved_ratio") * resent, 1);
  }
}

/// Expects that after every step the slots held exactly the selected units.
void ExpectExactSlots(const json& report) {
  for (const json& walk : {report, Part(report, "pulled_walk")}) {
    EXPECT_EQ(Figure(walk, "slots_exact"), 1);
    EXPECT_EQ(Figure(walk, "slots_exact_with_faults"), 1);
  }
  EXPECT_EQ(Figure(report, "slots_exact_model"), 1);
  for (const char* key : {"slots_exact_shm", "slots_exact_landing"}) {
    EXPECT_EQ(report.value(key, json()), true)
        << key << ": " << report.value(std::string(key) + "_reason", "");
  }
  EXPECT_EQ(report.value("landing_over", ""), UcxAvailable() ? "ucx" : "loopback");
}

void ExpectFaults(const json& faults) {
  ExpectPositive(faults, {"dropped", "late", "stale", "duplicated", "replayed"});
  EXPECT_GE(Figure(faults, "recalls_made_again"),
            Figure(faults, "dropped") + Figure(faults, "stale") + Figure(faults, "duplicated") +
                Figure(faults, "replayed"))
      << "each costs at least the recall that it met";
  EXPECT_EQ(Figure(faults, "rate_of_each"), kFaultRate);
}

/// The model decodes the requested number of tokens after each question, beginning with the answer.
/// Each is a step. Every token of a question is too, except the first, which fills the slots.
void ExpectDecodeTrace(const json& report) {
  EXPECT_EQ(Figure(report, "model_questions"), kQuestions);
  EXPECT_EQ(Figure(report, "model_decode_steps"), kQuestions * kDecodedTokens);
  EXPECT_GE(Figure(report, "model_answer_steps"), kQuestions) << "an answer has a token";
  EXPECT_LT(Figure(report, "model_answer_steps"), Figure(report, "model_decode_steps"));
  EXPECT_GT(Figure(report, "model_question_steps"), 0);
  EXPECT_EQ(Figure(report, "model_decoded_tokens_per_question"), kDecodedTokens);
  ExpectPositive(report, {"model_units_selected"});
}

TEST(BenchElasticProcessTest, ReportsWhatMovesAndThatTheSlotsAreRight) {
  const json report = testing::BenchReport(
      {"elastic", "--context", std::to_string(kContextTokens), "--steps",
       std::to_string(kElasticSteps), "--questions", std::to_string(kQuestions), "--decoded-tokens",
       std::to_string(kDecodedTokens), "--fault-rate", std::to_string(kFaultRate), "--model",
       QUIRE_BUNDLED_MODEL});
  ExpectMoved(report);
  ExpectOverlaps(report);
  ExpectBytes(report);
  ExpectExactSlots(report);
  ExpectFaults(Part(report, "faults"));
  ExpectPositive(report, {"map_overhead_us_per_step", "step_us_c95", "step_us_c90"});

  ExpectDecodeTrace(report);

  EXPECT_EQ(Figure(report, "steps"), kElasticSteps);
  EXPECT_EQ(Figure(report, "seed"), 1);
  EXPECT_EQ(Figure(Part(report, "shape"), "context_tokens"), kContextTokens);
  ExpectPositive(Part(report, "shape"), {"page_tokens", "group_size", "topics", "mean_run_pages"});
  ExpectPositive(Part(report, "pulled_walk"), {"topic_cosine", "step_us_c95", "step_us_c90"});
  ExpectMachine(report);
}

ChildResult Elastic(std::vector<std::string> args) {
  args.insert(args.begin(), {"bench", "elastic"});
  return testing::RunChild(QUIRE_BINARY_DIR "/bin/quire", std::move(args));
}

TEST(BenchElasticProcessTest, RefusesOptionsOutOfTheirRange) {
  struct Wrong {
    std::string option;
    std::string value;
    std::string allowed;
  };
  const std::vector<Wrong> wrong = {
      {"--context", "2048", "4096 to 131072"},   {"--context", "short", "4096 to 131072"},
      {"--steps", "0", "1 to 100000"},           {"--questions", "0", "1 to 100000"},
      {"--decoded-tokens", "5000", "0 to 4096"}, {"--fault-rate", "0.2", "0.050000"},
      {"--fault-rate", "-0.1", "0.050000"},      {"--pages", "64", ""}};
  for (const Wrong& options : wrong) {
    SCOPED_TRACE(options.option + "=" + options.value);
    const ChildResult result = Elastic({options.option + "=" + options.value});
    const bool nothing = options.value == "0";
    EXPECT_EQ(result.exit_code, nothing ? 1 : 2);
    EXPECT_THAT(result.err, AllOf(HasSubstr(options.option), HasSubstr(options.allowed),
                                  HasSubstr(nothing ? "" : "--help")));
    EXPECT_THAT(result.out, IsEmpty());
  }
}

TEST(BenchElasticProcessTest, SaysWhichModelIsMissingBeforeItMeasures) {
  const TempDir directory;
  const std::string missing = directory / "missing";
  const ChildResult result = Elastic({"--model", missing});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr(missing), Not(HasSubstr("selecting pages"))));
  EXPECT_THAT(result.out, IsEmpty());
}

}  // namespace
}  // namespace quire
