// SPDX-License-Identifier: Apache-2.0
//
// quire bench rag as a program, over few short documents and few questions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/integration/bench_report.h"
#include "tests/kit/paths.h"

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
using testing::Part;

constexpr double kRagQuestions = 2;

/// The cell of `suite`, with each method that `quire ask` knows.
json Cell(const json& report, const std::string& suite) {
  for (const json& cell : report.value("cells", json::array())) {
    if (cell.value("suite", "") == suite) return cell;
  }
  ADD_FAILURE() << "no cell of " << suite << " in " << report.dump();
  return json::object();
}

void ExpectMethod(const json& methods, const std::string& name) {
  SCOPED_TRACE(name);
  const json method = Part(methods, name);
  ExpectShares(method, {"recompute_ratio", "sequence_ratio"});
  ExpectPositive(method, {"bytes_vs_full", "bytes_fetched", "kl_document_tokens"});
  EXPECT_GE(Figure(method, "kl_answer"), 0);
  EXPECT_GE(Figure(method, "kl_documents"), 0);
}

void ExpectMethods(const json& cell) {
  const json methods = Part(cell, "methods");
  for (const char* const name : {"reuse_strict", "epic", "cacheblend", "samkv"}) {
    ExpectMethod(methods, name);
  }
  EXPECT_EQ(Figure(Part(methods, "reuse_strict"), "recompute_ratio"), 0);
  EXPECT_GT(Figure(Part(methods, "reuse_strict"), "kl_documents"),
            Figure(Part(methods, "cacheblend"), "kl_documents"))
      << "what is computed is nearer to full prefill";
}

TEST(BenchRagProcessTest, ReportsAnswersDivergenceAndTimesOfEveryMethod) {
  const json report = testing::BenchReport(
      {"rag", "--suites",  "edges", "--documents", "10",  "--questions",  "2",  "--document-words",
       "64",  "--entries", "4",     "--dossiers",  "1",   "--layers",     "2",  "--layers-tokens",
       "640", "--timed",   "1",     "--tiers",     "ssd", "--transports", "shm"});
  const json suite = Cell(report, "edges");
  ExpectMethods(suite);
  EXPECT_GE(Figure(Part(suite, "full"), "questions"), kRagQuestions);
  ExpectShares(Part(suite, "full"), {"accuracy", "low", "high"});
  ExpectMethods(Cell(report, "dossiers"));
  ExpectMethods(Cell(report, "layers"));
  for (const std::string method : {"reuse_strict", "epic", "cacheblend", "samkv"}) {
    ExpectShares(report, {method + "_accuracy", method + "_recompute_ratio"});
    ExpectPositive(report, {method + "_bytes_vs_full", method + "_sequence_ratio"});
    EXPECT_TRUE(report.contains(method + "_recovery"));
  }
  for (const json& one : report.value("first_token", json::array())) {
    EXPECT_EQ(one.value("tier", ""), "ssd");
    EXPECT_EQ(one.value("transport", ""), "shm");
    ExpectPositive(one, {"full_seconds", "prompt_tokens"});
  }
  ExpectMachine(report);
}

TEST(BenchRagProcessTest, RefusesSuitesThatItDoesNotKnow) {
  const ChildResult result =
      testing::RunChild(QUIRE_BINARY_DIR "/bin/quire", {"bench", "rag", "--suites", "middle"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("--suites"), HasSubstr("edges")));
  EXPECT_THAT(result.out, IsEmpty());
}

}  // namespace
}  // namespace quire
