// SPDX-License-Identifier: Apache-2.0
//
// quire bench answers as a program, with some thirty questions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/integration/bench_report.h"
#include "tests/kit/paths.h"
#include "tests/kit/temp_dir.h"

namespace quire {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using testing::ExpectMachine;
using testing::ExpectPositive;
using testing::ExpectShares;
using testing::Figure;
using ::testing::HasSubstr;
using testing::KeysOf;
using testing::Part;
using testing::TempDir;

constexpr double kRounding = 1e-9;

const char* const kPolicies[] = {"freekv", "freekv_tau_-1", "freekv_calibrated", "quest"};
const char* const kBudgets[] = {"_6_25", "_12_5", "_25"};

/// Keys of all cells.
std::set<std::string> CellKeys() {
  std::set<std::string> keys = {"full"};
  for (const std::string policy : kPolicies) {
    for (const char* budget : kBudgets) keys.insert(policy + budget);
  }
  return keys;
}

/// Expects a share and its 95 % interval, from `least` to 1.
void ExpectEstimate(const json& answers, const std::string& key, double least) {
  const json interval = answers.value(key + "_95", json());
  if (!interval.is_array() || interval.size() != 2) {
    ADD_FAILURE() << "no interval of " << key << " in " << answers.dump();
    return;
  }
  EXPECT_GE(interval[0].get<double>(), least) << key;
  EXPECT_LE(interval[0].get<double>(), Figure(answers, key)) << key;
  EXPECT_GE(interval[1].get<double>(), Figure(answers, key)) << key;
  EXPECT_LE(interval[1].get<double>(), 1) << key;
}

/// Compares a cell's answers, all or those to one set, with full attention's to the same questions.
void ExpectAnswers(const json& answers, const json& full) {
  ExpectEstimate(answers, "accuracy", 0);
  ExpectEstimate(answers, "loss", -1);
  EXPECT_NEAR(Figure(answers, "loss"), Figure(full, "accuracy") - Figure(answers, "accuracy"),
              kRounding);
  ExpectPositive(answers, {"samples", "steps", "generated", "sequences", "seconds"});
  EXPECT_EQ(Figure(answers, "samples"), Figure(full, "samples"));
  EXPECT_EQ(Figure(answers, "sequences"), Figure(full, "sequences"));
  EXPECT_NEAR(Figure(answers, "recalled_bytes_per_token") * Figure(answers, "steps"),
              Figure(answers, "bytes_units"), 1);
  ExpectShares(answers, {"blocking_heads"});
}

/// Expects the figures of a cell to be the sum over its sets.
void ExpectSumOfSets(const json& cell) {
  const json sets = Part(cell, "sets");
  double samples = 0, right = 0, bytes = 0, heads = 0, blocked = 0;
  for (const json& answers : sets) {
    samples += Figure(answers, "samples");
    right += Figure(answers, "samples") * Figure(answers, "accuracy");
    bytes += Figure(answers, "bytes_units");
    heads += Figure(answers, "head_steps");
    blocked += Figure(answers, "head_steps") * Figure(answers, "blocking_heads");
  }
  EXPECT_EQ(Figure(cell, "samples"), samples);
  EXPECT_NEAR(Figure(cell, "samples") * Figure(cell, "accuracy"), right, kRounding);
  EXPECT_EQ(Figure(cell, "bytes_units"), bytes);
  EXPECT_EQ(Figure(cell, "head_steps"), heads);
  EXPECT_NEAR(Figure(cell, "head_steps") * Figure(cell, "blocking_heads"), blocked,
              kRounding * heads);
}

/// Expects every cell's accuracy under its key, and the same questions in each.
void ExpectCells(const json& report) {
  const json cells = Part(report, "cells");
  const json full = Part(cells, "full");
  for (const auto& [key, cell] : cells.items()) {
    SCOPED_TRACE(key);
    EXPECT_EQ(Figure(report, key), Figure(cell, "accuracy"));
    EXPECT_EQ(Figure(report, "samples"), Figure(cell, "samples"));
    ExpectAnswers(cell, full);
    const json sets = Part(cell, "sets");
    EXPECT_EQ(KeysOf(sets), (std::set<std::string>{"needle", "recall"}));
    for (const auto& [set, answers] : sets.items()) {
      SCOPED_TRACE(set);
      ExpectAnswers(answers, Part(Part(full, "sets"), set));
    }
    ExpectSumOfSets(cell);
    const json places = Part(cell, "places");
    const std::set<std::string> names = KeysOf(places);
    EXPECT_TRUE(names.contains("length 1024, depth 0.1")) << places;
    EXPECT_EQ(names, KeysOf(Part(full, "places")));
    ExpectShares(places, {names.begin(), names.end()});
  }
}

/// Full attention recalls nothing and holds everything. A policy holds a part, larger with a larger
/// budget, and recalls.
void ExpectMoved(const json& cells, const std::string& policy) {
  const json full = Part(cells, "full");
  EXPECT_EQ(Figure(full, "bytes_units"), 0);
  EXPECT_EQ(Figure(full, "resident_share"), 1);
  double smaller = 0;
  for (const char* budget : kBudgets) {
    const std::string key = policy + budget;
    SCOPED_TRACE(key);
    const json cell = Part(cells, key);
    ExpectPositive(cell, {"bytes_units", "bytes_digests", "bytes_at_open"});
    EXPECT_LT(Figure(cell, "bytes_at_open"), Figure(full, "bytes_at_open"));
    EXPECT_GT(Figure(cell, "resident_share"), smaller);
    EXPECT_LT(Figure(cell, "resident_share"), 1);
    smaller = Figure(cell, "resident_share");
  }
}

/// Checks the shares of blocked heads and their thresholds. The share is 1 if every recall blocks,
/// and least without corrections.
void ExpectBlocking(const json& cells) {
  EXPECT_EQ(Figure(Part(cells, "full"), "blocking_heads"), 0);
  for (const char* budget : kBudgets) {
    SCOPED_TRACE(budget);
    const auto figure = [&](const std::string& policy, const char* key) {
      return Figure(Part(cells, policy + budget), key);
    };
    EXPECT_EQ(figure("quest", "blocking_heads"), 1);
    EXPECT_GT(figure("quest", "head_steps"), 0);
    EXPECT_FLOAT_EQ(figure("freekv", "tau"), 0.8);
    EXPECT_EQ(figure("freekv_tau_-1", "tau"), -1);
    EXPECT_LT(figure("freekv_calibrated", "tau"), 0.8);
    EXPECT_GT(figure("freekv_calibrated", "tau"), -1);
    const double never = figure("freekv_tau_-1", "blocking_heads");
    const double calibrated = figure("freekv_calibrated", "blocking_heads");
    EXPECT_GT(never, 0) << "first steps";
    EXPECT_GT(calibrated, never);
    EXPECT_LT(calibrated, figure("freekv", "blocking_heads"));
    EXPECT_LT(figure("freekv", "blocking_heads"), 1);
  }
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(BenchAnswersProcessTest, ReportsAccuraciesAndWhatMovedForThem) {
  const TempDir directory;
  const json report = testing::BenchReport(
      {"answers", "--model", QUIRE_BUNDLED_MODEL, "--policies",
       "freekv,freekv_tau_-1,freekv_calibrated,quest", "--sets", "recall,needle", "--samples", "1",
       "--plot", directory / "plot.svg", "--markdown", directory / "table.md"});
  const json cells = Part(report, "cells");
  EXPECT_EQ(KeysOf(cells), CellKeys());
  ExpectCells(report);
  for (const char* policy : kPolicies) {
    SCOPED_TRACE(policy);
    ExpectMoved(cells, policy);
  }
  ExpectBlocking(cells);
  EXPECT_EQ(Figure(report, "corrected_share_wanted"), 0.138);
  EXPECT_GT(Figure(report, "full"), 0.5) << "the model answers most";

  const double lost = Figure(Part(cells, "freekv_12_5"), "loss");
  EXPECT_EQ(Figure(report, "full_minus_freekv_12_5"), lost);
  EXPECT_EQ(report.value("full_minus_freekv_12_5_95", json()),
            Part(cells, "freekv_12_5").value("loss_95", json()));
  EXPECT_EQ(Figure(report, "freekv_within_1_point_at_12_5"), lost <= 0.01 ? 1 : 0);
  ExpectShares(report, {"freekv_within_1_point_at_12_5_by_interval"});
  ExpectPositive(report, {"resamples", "questions_seed", "page_tokens", "documents", "threads"});
  ExpectMachine(report);

  EXPECT_THAT(ReadAll(directory / "plot.svg"), AllOf(HasSubstr("<svg"), HasSubstr("freekv"),
                                                     HasSubstr("quest"), HasSubstr("</svg>")));
  const std::string table = ReadAll(directory / "table.md");
  EXPECT_EQ(static_cast<size_t>(std::ranges::count(table, '\n')), 2 + cells.size()) << table;
}

TEST(BenchAnswersProcessTest, TableAndPlotAreMadeAnewOfAReport) {
  const TempDir directory;
  const std::string kept = QUIRE_SOURCE_DIR "/bench/results/answers.json";
  const json report = testing::BenchReport(
      {"answers", "--from", kept, "--plot", directory / "plot.svg", "--markdown",
       directory / "table.md", "--blocking-plot", directory / "blocking.svg"});
  EXPECT_EQ(report, json::parse(ReadAll(kept)));
  EXPECT_THAT(ReadAll(directory / "plot.svg"),
              AllOf(HasSubstr("KiB moved per token"), HasSubstr("shadowkv"), HasSubstr("</svg>")));
  EXPECT_EQ(ReadAll(directory / "blocking.svg"),
            ReadAll(QUIRE_SOURCE_DIR "/bench/results/plots/answers_blocking.svg"));
  const std::string table = ReadAll(directory / "table.md");
  EXPECT_EQ(static_cast<size_t>(std::ranges::count(table, '\n')), 2 + Part(report, "cells").size())
      << table;
}

}  // namespace
}  // namespace quire
