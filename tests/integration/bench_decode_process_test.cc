// SPDX-License-Identifier: Apache-2.0
//
// quire bench decode as a program, over a short document, with the bundled model in place of large
// ones of random weights.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "common/transport/ucx.h"
#include "tests/integration/bench_report.h"

namespace quire {
namespace {

using nlohmann::json;
using testing::ExpectMachine;
using testing::ExpectPositive;
using testing::ExpectShares;
using testing::Figure;
using testing::KeysOf;
using testing::Part;

constexpr char kModel[] = QUIRE_SOURCE_DIR "/models/recall-small";
constexpr int kTurns = 2;
constexpr int kSteps = 3;  ///< Of a turn.

const std::set<std::string> kRivals = {"freekv", "blocking", "arkvale", "shadowkv", "resident"};
const std::set<std::string> kAblated = {"freekv", "blocking", "one_buffer", "fragmented",
                                        "resident"};
const std::vector<std::string> kRivalRatios = {"speculation_vs_blocking", "offloaded_vs_resident",
                                               "vs_arkvale_blocking", "vs_shadowkv"};
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

/// The shape of the model, and what a recall of one of its units moves.
struct Shape {
  double layers = 0;
  double kv_heads = 0;
  double unit_bytes = 0;
};

/// Step and stall time of every way, and what it recalled for them.
void ExpectWays(const json& ways, const Shape& shape) {
  for (const auto& [name, way] : ways.items()) {
    SCOPED_TRACE(name);
    EXPECT_EQ(Figure(way, "steps"), kTurns * kSteps);
    ExpectPositive(way, {"step_ms_p50"});
    EXPECT_LE(Figure(way, "step_ms_p50"), Figure(way, "step_ms_p99"));
    EXPECT_GE(Figure(way, "corrected_heads_per_layer_step"), 0);
    EXPECT_LE(Figure(way, "corrected_heads_per_layer_step"), shape.kv_heads);
    // ShadowKV recalls values, and has keys of its own.
    const double moved_bytes = shape.unit_bytes / (name == "shadowkv" ? 2 : 1);
    EXPECT_NEAR(Figure(way, "bytes_per_step"),
                Figure(way, "units_per_layer_step") * shape.layers * moved_bytes, 1);
    if (name == "resident") {
      EXPECT_EQ(Figure(way, "bytes_per_step"), 0);
      EXPECT_EQ(Figure(way, "recalls_per_step"), 0);
      EXPECT_EQ(Figure(way, "stall_ms_per_step"), 0);
      continue;
    }
    ExpectPositive(way, {"bytes_per_step", "recalls_per_step", "stall_ms_per_step"});
    if (name == "freekv") continue;
    EXPECT_EQ(Figure(way, "corrected_heads_per_layer_step"), shape.kv_heads) << "all of them block";
  }
}

void ExpectRivals(const json& part, const Shape& shape) {
  const json ways = Part(part, "ways");
  EXPECT_EQ(KeysOf(ways), kRivals);
  ExpectRatios(part, kRivalRatios);
  ExpectWays(ways, shape);
}

void ExpectAblation(const json& part, const Shape& shape) {
  const json ways = Part(part, "ways");
  EXPECT_EQ(KeysOf(ways), kAblated);
  ExpectRatios(part, kAblatedRatios);
  ExpectWays(ways, shape);
  for (const char* name : {"one_buffer", "fragmented"}) {
    EXPECT_EQ(Figure(Part(ways, name), "units_per_layer_step"),
              Figure(Part(ways, "blocking"), "units_per_layer_step"))
        << name << " is to recall the same pages in another way";
  }
}

void ExpectLink(const json& part) {
  EXPECT_EQ(part.value("carried_by", ""), "shm");
  EXPECT_EQ(Figure(part, "link_us"), 100);
  EXPECT_EQ(Figure(part, "link_gbps"), 10);
}

/// The report's own ratios: of the first transport, and of the ablation over the link.
void ExpectOwnRatios(const json& report) {
  ExpectRatios(report, kRivalRatios);
  ExpectRatios(report, {"contiguous_vs_fragmented", "double_vs_single_buffer"});
  EXPECT_EQ(report.value("transport", ""), "shm");
  const json first = Part(Part(report, "transports"), "shm");
  for (const std::string& key : kRivalRatios) {
    EXPECT_EQ(Figure(report, key), Figure(first, key)) << key;
  }
  const json link = Part(Part(report, "ablation"), "over_emulated_link");
  for (const char* key : {"contiguous_vs_fragmented", "double_vs_single_buffer"}) {
    EXPECT_EQ(Figure(report, key), Figure(link, key)) << key;
  }
}

TEST(BenchDecodeProcessTest, ReportsStepAndStallTimesByTransportAndWhatTheyAreMadeOf) {
  std::set<std::string> transports = {"shm", "grpc"};
  if (UcxAvailable()) transports.insert("ucx");
  const json report = testing::BenchReport(
      {"decode", "--model", kModel, "--context", "2048", "--budget", "512", "--turns",
       std::to_string(kTurns), "--steps", std::to_string(kSteps), "--link-us", "100", "--link-gbps",
       "10", "--transports", UcxAvailable() ? "shm,grpc,ucx" : "shm,grpc"});
  EXPECT_FALSE(report.contains("absent")) << report["absent"];
  const Shape shape = {.layers = Figure(report, "num_layers"),
                       .kv_heads = Figure(report, "num_kv_heads"),
                       .unit_bytes = Figure(report, "unit_bytes")};
  const json ablation = Part(report, "ablation");
  const json rival_parts = Part(report, "transports");
  const json ablated_parts = Part(ablation, "transports");
  EXPECT_EQ(KeysOf(rival_parts), transports);
  EXPECT_EQ(KeysOf(ablated_parts), transports);
  for (const std::string& transport : transports) {
    SCOPED_TRACE(transport);
    ExpectRivals(Part(rival_parts, transport), shape);
    EXPECT_NE(Part(rival_parts, transport).value("detail", ""), "");
    ExpectAblation(Part(ablated_parts, transport), shape);
  }
  {
    SCOPED_TRACE("over the emulated link");
    ExpectRivals(Part(report, "over_emulated_link"), shape);
    ExpectLink(Part(report, "over_emulated_link"));
    ExpectAblation(Part(ablation, "over_emulated_link"), shape);
    ExpectLink(Part(ablation, "over_emulated_link"));
  }
  ExpectOwnRatios(report);

  EXPECT_EQ(Figure(report, "context_tokens"), 2048);
  EXPECT_EQ(Figure(report, "budget_tokens"), 512);
  EXPECT_EQ(Figure(report, "turns"), kTurns);
  EXPECT_EQ(Figure(report, "steps_per_turn"), kSteps);
  EXPECT_EQ(Figure(ablation, "fragment_bytes") * Figure(ablation, "fragments_per_unit"),
            shape.unit_bytes);
  ExpectShares(report, {"tau"});
  ExpectShares(ablation, {"tau"});
  EXPECT_EQ(report.value("device", ""), "cpu");
  ExpectMachine(report);
}

}  // namespace
}  // namespace quire
