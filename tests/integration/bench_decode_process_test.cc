// SPDX-License-Identifier: Apache-2.0
//
// quire bench decode as a program, over a short document. The bundled model stands in for large
// random ones, except in one test.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/integration/bench_report.h"
#include "tests/kit/child_process.h"
#include "tests/kit/paths.h"
#include "tests/kit/temp_dir.h"
#include "tests/kit/tiny_model.h"
#include "transport/ucx/ucx.h"

namespace quire {
namespace {

using nlohmann::json;
using testing::ExpectMachine;
using testing::ExpectPositive;
using testing::ExpectShares;
using testing::Figure;
using testing::KeysOf;
using testing::Part;

constexpr int kTurns = 2;
constexpr int kSteps = 3;  ///< Steps of a turn.
constexpr int kBudget = 512;
constexpr int kTokensOfPage = 32;

const std::set<std::string> kAllWays = {"freekv",     "service",    "blocking",
                                        "one_buffer", "fragmented", "arkvale",
                                        "shadowkv",   "specontext", "resident"};
const std::set<std::string> kAblated = {"freekv", "blocking", "one_buffer", "fragmented",
                                        "resident"};
const std::vector<std::string> kAllRatios = {"speculation_vs_blocking",
                                             "contiguous_vs_fragmented",
                                             "double_vs_single_buffer",
                                             "offloaded_vs_resident",
                                             "service_vs_resident",
                                             "vs_arkvale_blocking",
                                             "vs_shadowkv"};
const std::vector<std::string> kAblatedRatios = {"speculation_vs_blocking", "offloaded_vs_resident",
                                                 "contiguous_vs_fragmented",
                                                 "double_vs_single_buffer"};

/// Medians of the turns, between their quartiles.
void ExpectRatios(const json& part, const std::vector<std::string>& keys) {
  ExpectPositive(part, keys);
  for (const std::string& key : keys) {
    SCOPED_TRACE(key);
    const json spread = Part(Part(part, "spread"), key);
    EXPECT_EQ(Figure(spread, "median"), Figure(part, key));
    EXPECT_GT(Figure(spread, "lower_quartile"), 0);
    EXPECT_LE(Figure(spread, "lower_quartile"), Figure(spread, "median"));
    EXPECT_LE(Figure(spread, "median"), Figure(spread, "upper_quartile"));
    EXPECT_EQ(Figure(spread, "turns"), kTurns);
  }
}

/// Shape of the model, bytes of a recalled unit, and sequences of a step.
struct Shape {
  double layers = 0;
  double kv_heads = 0;
  double unit_bytes = 0;
  double batch = 1;

  static Shape Of(const json& report) {
    return {.layers = Figure(report, "num_layers"),
            .kv_heads = Figure(report, "num_kv_heads"),
            .unit_bytes = Figure(report, "unit_bytes"),
            .batch = Figure(report, "batch")};
  }
};

std::vector<std::string> DecodeCommand(const std::vector<std::string>& more) {
  const std::string turns = std::to_string(kTurns), steps = std::to_string(kSteps);
  std::vector<std::string> args = {
      "decode",  "--model", QUIRE_BUNDLED_MODEL, "--context", "2048", "--budget", "512",
      "--turns", turns,     "--steps",           steps};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

/// A layer's recalls of all sequences are one message if all precede attention, and two if some do
/// and others follow it. The service sends more for late units, which may be all on a busy machine.
void ExpectMessages(const std::string& name, const json& way, const Shape& shape) {
  const double messages = Figure(way, "messages_per_step");
  EXPECT_GT(messages, 0);
  if (shape.batch == 1) {
    EXPECT_EQ(messages, Figure(way, "recalls_per_step"));
  }
  if (name == "service") return;
  EXPECT_LE(messages, (name == "freekv" ? 2 : 1) * shape.layers);
  if (name == "specontext" && shape.batch > 1) EXPECT_LE(messages, 1) << "of all layers";
  if (shape.batch > 1) {
    EXPECT_LT(messages, Figure(way, "recalls_per_step"));
  }
}

/// Expects each way to count with its fastest number of threads.
void ExpectBestThreads(const json& way) {
  const json tried = Part(way, "step_ms_p50_by_threads");
  EXPECT_TRUE(tried.contains("1")) << tried;
  double least = Figure(tried, "1");
  for (const auto& [threads, step] : tried.items()) least = std::min(least, step.get<double>());
  const auto threads = std::to_string(static_cast<int>(Figure(way, "threads")));
  EXPECT_EQ(Figure(tried, threads), Figure(way, "step_ms_p50"));
  EXPECT_EQ(Figure(way, "step_ms_p50"), least);
}

/// Checks step time, stall time and recalls of every way.
void ExpectWays(const json& ways, const Shape& shape) {
  for (const auto& [name, way] : ways.items()) {
    SCOPED_TRACE(name);
    EXPECT_EQ(Figure(way, "steps"), kTurns * kSteps);
    ExpectPositive(way, {"step_ms_p50"});
    ExpectBestThreads(way);
    EXPECT_LE(Figure(way, "step_ms_p50"), Figure(way, "step_ms_p99"));
    EXPECT_GE(Figure(way, "corrected_heads_per_layer_step"), 0);
    const double heads = shape.kv_heads * shape.batch;
    EXPECT_LE(Figure(way, "corrected_heads_per_layer_step"), heads);
    // The other ways keep no units, and wait for all.
    EXPECT_EQ(Figure(way, "host_units_per_layer_step") > 0, name == "service");
    if (name != "service") {
      EXPECT_EQ(Figure(way, "late_layers_per_step"), 0);
    }
    // ShadowKV recalls values, and computes the keys itself.
    const double moved_bytes = shape.unit_bytes / (name == "shadowkv" ? 2 : 1);
    EXPECT_NEAR(Figure(way, "bytes_per_step"),
                Figure(way, "units_per_layer_step") * shape.layers * moved_bytes, 1);
    if (name == "resident") {
      EXPECT_EQ(Figure(way, "bytes_per_step"), 0);
      EXPECT_EQ(Figure(way, "recalls_per_step"), 0);
      EXPECT_EQ(Figure(way, "messages_per_step"), 0);
      EXPECT_EQ(Figure(way, "stall_ms_per_step"), 0);
      continue;
    }
    ExpectPositive(way, {"bytes_per_step", "recalls_per_step", "stall_ms_per_step"});
    ExpectMessages(name, way, shape);
    if (name == "freekv" || name == "service") continue;  // They speculate.
    EXPECT_EQ(Figure(way, "corrected_heads_per_layer_step"), heads) << "all of them block";
  }
}

/// A resident budget and a recalled one of the same size attend to equally many tokens.
void ExpectSameBudget(const json& ways, const Shape& shape) {
  const double resident = Figure(Part(ways, "resident"), "attended_tokens");
  EXPECT_LE(resident, kBudget * shape.batch);
  EXPECT_NEAR(resident, Figure(Part(ways, "freekv"), "attended_tokens"),
              2 * kTokensOfPage * shape.batch);
}

void ExpectSamePages(const json& ways) {
  const json blocking = Part(ways, "blocking");
  for (const char* name : {"one_buffer", "fragmented"}) {
    const json way = Part(ways, name);
    // Turns with different numbers of threads run different tokens.
    if (Figure(way, "threads") != Figure(blocking, "threads")) continue;
    EXPECT_EQ(Figure(way, "units_per_layer_step"), Figure(blocking, "units_per_layer_step"))
        << name << " is to recall the same pages in another way";
  }
}

void ExpectAllWays(const json& part, const Shape& shape) {
  const json ways = Part(part, "ways");
  EXPECT_EQ(KeysOf(ways), kAllWays);
  ExpectSameBudget(ways, shape);
  ExpectRatios(part, kAllRatios);
  ExpectWays(ways, shape);
}

void ExpectAblation(const json& part, const Shape& shape) {
  const json ways = Part(part, "ways");
  EXPECT_EQ(KeysOf(ways), kAblated);
  ExpectRatios(part, kAblatedRatios);
  ExpectWays(ways, shape);
  ExpectSamePages(ways);
}

void ExpectLink(const json& part) {
  EXPECT_EQ(part.value("carried_by", ""), "shm");
  EXPECT_EQ(Figure(part, "link_us"), 100);
  EXPECT_EQ(Figure(part, "link_gbps"), 10);
}

/// Expects the report's own ratios to be those of one column: its own shape over shared memory.
void ExpectOwnRatios(const json& report) {
  EXPECT_EQ(report.value("transport", ""), "shm");
  const json plain = Part(Part(report, "transports"), "shm");
  for (const std::string& key : kAllRatios) {
    EXPECT_EQ(Figure(report, key), Figure(plain, key)) << key;
  }
  EXPECT_EQ(Part(report, "spread"), Part(plain, "spread"));
  EXPECT_EQ(Figure(report, "resident_threads"),
            Figure(Part(Part(plain, "ways"), "resident"), "threads"));
}

/// Without shared memory there is no column for the report's own ratios.
void ExpectNoOwnRatios(const json& report) {
  for (const std::string& key : kAllRatios) EXPECT_FALSE(report.contains(key)) << key;
}

/// Checks ShadowKV in a batch of four, a separate comparison.
void ExpectShadowBatch(const json& report, Shape shape) {
  const json part = Part(report, "shadowkv_batch4");
  shape.batch = Figure(part, "batch");
  EXPECT_EQ(shape.batch, 4);
  EXPECT_EQ(part.value("transport", ""), "shm");
  EXPECT_EQ(KeysOf(Part(part, "ways")), (std::set<std::string>{"freekv", "shadowkv"}));
  ExpectWays(Part(part, "ways"), shape);
  ExpectRatios(part, {"vs_shadowkv"});
}

/// Throughput where the budget is a quarter of the document, of which there are no longer ones.
void ExpectBudgetShares(const json& report) {
  const json shares = Part(report, "budget_shares");
  EXPECT_EQ(KeysOf(shares), std::set<std::string>{"25"});
  const json quarter = Part(shares, "25");
  EXPECT_EQ(Figure(quarter, "context_tokens"), 4 * kBudget);
  const std::set<std::string> ways = {"full", "freekv", "shadowkv", "specontext"};
  EXPECT_EQ(KeysOf(Part(quarter, "ways")), ways);
  for (const std::string& way : ways) {
    const double rate = Figure(Part(quarter, "tokens_per_second"), way);
    EXPECT_NEAR(rate * Figure(Part(Part(quarter, "ways"), way), "step_ms_p50"), 1e3, 1e-6);
  }
  ExpectPositive(quarter, {"specontext_vs_full", "specontext_vs_freekv", "specontext_vs_shadowkv"});
}

TEST(BenchDecodeProcessTest, ReportsStepAndStallTimesByTransportAndWhatTheyAreMadeOf) {
  std::set<std::string> transports = {"shm", "grpc"};
  if (UcxAvailable()) transports.insert("ucx");
  const json report =
      testing::BenchReport(DecodeCommand({"--link-us", "100", "--link-gbps", "10", "--transports",
                                          UcxAvailable() ? "shm,grpc,ucx" : "shm,grpc"}));
  EXPECT_FALSE(report.contains("absent")) << report["absent"];
  const Shape shape = Shape::Of(report);
  EXPECT_EQ(shape.batch, 1);
  const json ablation = Part(report, "ablation");
  const json parts = Part(report, "transports");
  const json ablated_parts = Part(ablation, "transports");
  EXPECT_EQ(KeysOf(parts), transports);
  EXPECT_EQ(KeysOf(ablated_parts), transports);
  for (const std::string& transport : transports) {
    SCOPED_TRACE(transport);
    ExpectAllWays(Part(parts, transport), shape);
    EXPECT_NE(Part(parts, transport).value("detail", ""), "");
    ExpectAblation(Part(ablated_parts, transport), shape);
  }
  {
    SCOPED_TRACE("over the emulated link");
    ExpectAllWays(Part(report, "over_emulated_link"), shape);
    ExpectLink(Part(report, "over_emulated_link"));
    ExpectAblation(Part(ablation, "over_emulated_link"), shape);
    ExpectLink(Part(ablation, "over_emulated_link"));
  }
  ExpectOwnRatios(report);
  ExpectShadowBatch(report, shape);
  ExpectBudgetShares(report);

  EXPECT_EQ(Figure(report, "context_tokens"), 2048);
  EXPECT_EQ(Figure(report, "budget_tokens"), 512);
  EXPECT_EQ(Figure(report, "turns"), kTurns);
  EXPECT_EQ(Figure(report, "steps_per_turn"), kSteps);
  EXPECT_EQ(Figure(ablation, "fragment_bytes") * Figure(ablation, "fragments_per_unit"),
            shape.unit_bytes);
  ExpectShares(report, {"tau"});
  ExpectShares(ablation, {"tau"});
  EXPECT_EQ(report.value("device", ""), "cpu");
  for (const char* const key : {"gpu", "cublas"}) {
    EXPECT_TRUE(report.contains(key) && report[key].is_null()) << "there is none in use";
  }
  ExpectMachine(report);
}

TEST(BenchDecodeProcessTest, ThroughputByLengthMayBeAllThatIsMeasured) {
  const json report = testing::BenchReport(DecodeCommand({"--only-shares", "--transports", "shm"}));
  ExpectBudgetShares(report);
  for (const char* const part : {"transports", "ablation", "over_emulated_link"}) {
    EXPECT_FALSE(report.contains(part)) << part;
  }
  ExpectMachine(report);
}

TEST(BenchDecodeProcessTest, LayersOfTheShapesOfAModelInUseSayWhatOffloadingCosts) {
  const json report =
      testing::BenchReport({"decode", "--model-layers", "1", "--context", "512", "--budget", "320",
                            "--turns", std::to_string(kTurns), "--steps", std::to_string(kSteps),
                            "--transports", "shm", "--link-us", "100", "--link-gbps", "10"});
  const json layers = Part(report, "model_layers");
  const json shape = Part(layers, "shape");
  const std::vector<std::pair<const char*, double>> llama = {
      {"num_layers", 1},      {"num_query_heads", 32}, {"num_kv_heads", 8},
      {"head_dim", 128},      {"hidden_size", 4096},   {"intermediate_size", 14336},
      {"context_tokens", 512}};
  for (const auto& [key, value] : llama) EXPECT_EQ(Figure(shape, key), value) << key;
  ExpectShares(layers, {"tau"});
  const Shape recalled = {
      .layers = 1, .kv_heads = 8, .unit_bytes = Figure(report, "unit_bytes"), .batch = 1};
  const json shm = Part(Part(layers, "transports"), "shm");
  const json link = Part(layers, "over_emulated_link");
  ExpectLink(link);
  for (const json& part : {shm, link}) {
    const json ways = Part(part, "ways");
    EXPECT_EQ(KeysOf(ways), (std::set<std::string>{"freekv", "blocking", "resident"}));
    ExpectRatios(part, {"speculation_vs_blocking", "offloaded_vs_resident"});
    ExpectSameBudget(ways, recalled);
    ExpectWays(ways, recalled);
  }
  ExpectOwnRatios(report);
}

/// Runs over shared memory only, without an emulated link.
json ReportOfBatch(int sequences) {
  return testing::BenchReport(DecodeCommand({"--batch", std::to_string(sequences), "--transports",
                                             "shm", "--link-us", "0", "--link-gbps", "0"}));
}

TEST(BenchDecodeProcessTest, EveryWayDecodesTheBatchAndALayersRecallsShareAMessage) {
  const json report = ReportOfBatch(2);
  const Shape shape = Shape::Of(report);
  EXPECT_EQ(shape.batch, 2);
  ExpectAllWays(Part(Part(report, "transports"), "shm"), shape);
  ExpectAblation(Part(Part(Part(report, "ablation"), "transports"), "shm"), shape);
  ExpectShadowBatch(report, shape);
}

TEST(BenchDecodeProcessTest, ABatchOfFourMeetsShadowKvOnce) {
  const json report = ReportOfBatch(4);
  EXPECT_EQ(Figure(report, "batch"), 4);
  EXPECT_FALSE(report.contains("shadowkv_batch4"));
  ExpectOwnRatios(report);
}

TEST(BenchDecodeProcessTest, WithoutSharedMemoryTheReportHasNoRatiosOfItsOwn) {
  const json report = testing::BenchReport(
      DecodeCommand({"--transports", "grpc", "--link-us", "0", "--link-gbps", "0"}));
  ExpectNoOwnRatios(report);
  ExpectAllWays(Part(Part(report, "transports"), "grpc"), Shape::Of(report));
}

TEST(BenchDecodeProcessTest, AModelOfTheUsersNeedsNoTokenizer) {
  const testing::TempDir model;
  testing::WriteTinyModel(model.path(), {.max_positions = 512});
  const json report = testing::BenchReport(
      {"decode", "--context", "256", "--budget", "288", "--turns", "1", "--steps", "4",
       "--transports", "grpc", "--link-us", "0", "--link-gbps", "0", "--model", model.path()});
  EXPECT_EQ(report["context_tokens"], 256) << report;
  EXPECT_GT(report["transports"]["grpc"]["ways"]["freekv"]["step_ms_p50"], 0) << report;
  EXPECT_GT(report["transports"]["grpc"]["vs_arkvale_blocking"], 0) << report;
}

TEST(BenchDecodeProcessTest, ABatchIsOfOneSequenceToTheMostThatThereMayBe) {
  for (const char* sequences : {"0", "33", "two"}) {
    SCOPED_TRACE(sequences);
    const testing::ChildResult refused =
        testing::RunChild(QUIRE_BINARY_DIR "/bin/quire", {"bench", "decode", "--batch", sequences});
    EXPECT_EQ(refused.exit_code, std::string(sequences) == "0" ? 1 : 2);
    EXPECT_NE(refused.err.find("--batch"), std::string::npos) << refused.err;
    EXPECT_NE(refused.err.find("1 to 32"), std::string::npos) << refused.err;
  }
}

}  // namespace
}  // namespace quire
