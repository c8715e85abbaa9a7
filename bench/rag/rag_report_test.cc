// SPDX-License-Identifier: Apache-2.0
#include "bench/rag/rag_report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "bench/rag/divergence.h"

namespace quire::bench {
namespace {

TEST(DivergenceTest, IsThatOfTheDistributions) {
  const std::vector<float> even = {3, 3};
  const std::vector<float> uneven = {std::log(3.0f), 0};  // 3/4 and 1/4
  EXPECT_NEAR(Divergence(even, even), 0, 1e-12);
  EXPECT_NEAR(Divergence(uneven, even), std::log(2) - 0.5623351446, 1e-6);
  EXPECT_NEAR(Divergence(even, uneven), 0.1438410362, 1e-6);
}

TEST(DivergenceTest, LargeLogitsDoNotOverflow) {
  EXPECT_NEAR(Divergence(std::vector<float>{1000, 0}, std::vector<float>{990, 0}), 0, 1e-3);
}

TEST(WilsonIntervalTest, IsThatOfTheFormula) {
  const Interval half = WilsonInterval({.right = 50, .asked = 100});
  EXPECT_NEAR(half.low, 0.4038, 1e-4);
  EXPECT_NEAR(half.high, 0.5962, 1e-4);
  const Interval all = WilsonInterval({.right = 10, .asked = 10});
  EXPECT_NEAR(all.low, 0.7225, 1e-4);
  EXPECT_NEAR(all.high, 1, 1e-9);
  EXPECT_EQ(WilsonInterval({}).high, 0);
}

MethodTotals Totals(uint64_t right, double divergence) {
  MethodTotals totals;
  totals.all = {.right = right, .asked = 10};
  totals.questions = 10;
  totals.answer_divergence = divergence;
  return totals;
}

RagCell Cell() {
  RagCell cell{.suite = "edges", .documents = 10, .totals = {}};
  cell.totals.full = Totals(10, 0);
  cell.totals.methods = {{"reuse_strict", Totals(2, 40)}, {"samkv", Totals(8, 10)}};
  return cell;
}

TEST(RagReportTest, RecoveryIsTheShareOfWhatReuseLoses) {
  cli::Json json;
  AddRagJson({}, Cell(), {}, &json);
  EXPECT_DOUBLE_EQ(json["full_accuracy"], 1);
  EXPECT_DOUBLE_EQ(json["full_minus_reuse_strict"], 0.8);
  EXPECT_DOUBLE_EQ(json["samkv_accuracy"], 0.8);
  EXPECT_DOUBLE_EQ(json["samkv_recovery"], 0.75);
  EXPECT_DOUBLE_EQ(json["samkv_kl"], 1);
  EXPECT_DOUBLE_EQ(json["samkv_recovery_kl"], 0.75);
  EXPECT_DOUBLE_EQ(json["reuse_strict_recovery"], 0);
}

TEST(RagReportTest, NothingIsRecoveredWhereNothingIsLost) {
  RagCell cell = Cell();
  cell.totals.methods["reuse_strict"] = Totals(10, 0);
  cli::Json json;
  AddRagJson({}, cell, {}, &json);
  EXPECT_TRUE(json["samkv_recovery"].is_null());
}

TEST(RagReportTest, AMethodOfWhichNoRowWasMeasuredHasNoDivergenceOverDocuments) {
  RagCell cell = Cell();
  MethodTotals& strict = cell.totals.methods["reuse_strict"];
  strict.document_divergence = 30;
  strict.document_rows = 20;
  MethodTotals& measured = cell.totals.methods["samkv"];
  measured.document_divergence = 3;
  measured.document_rows = 20;
  cell.totals.methods["cachecraft"] = Totals(8, 10);
  cli::Json json;
  AddRagJson({}, cell, {}, &json);
  EXPECT_DOUBLE_EQ(json["samkv_kl_documents"], 0.15);
  EXPECT_DOUBLE_EQ(json["samkv_recovery_kl_documents"], 0.9);
  EXPECT_TRUE(json["cachecraft_kl_documents"].is_null());
  EXPECT_TRUE(json["cachecraft_recovery_kl_documents"].is_null());
}

TEST(RagReportTest, TheSpeedUpAtTheTopIsThatOfTheRandomModel) {
  const std::vector<FirstToken> times = {{.model = "layers",
                                          .tier = "dram",
                                          .transport = "shm",
                                          .method = "samkv",
                                          .seconds = 2,
                                          .full_seconds = 7,
                                          .prompt_tokens = 8192},
                                         {.model = "layers",
                                          .tier = "ssd",
                                          .transport = "shm",
                                          .method = "samkv",
                                          .seconds = 7,
                                          .full_seconds = 7,
                                          .prompt_tokens = 8192}};
  cli::Json json;
  AddRagJson({Cell()}, Cell(), times, &json);
  EXPECT_DOUBLE_EQ(json["samkv_ttft_speedup"], 3.5);
  EXPECT_EQ(json["cells"].size(), 1u);
  EXPECT_EQ(json["first_token"].size(), 2u);
  EXPECT_EQ(RagTable({Cell()}, times).num_rows(), 5u);
}

}  // namespace
}  // namespace quire::bench
