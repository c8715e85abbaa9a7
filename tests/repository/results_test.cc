// SPDX-License-Identifier: Apache-2.0
//
// The figures that are kept in bench/results keep to what they are measured for: whoever commits
// others that do not is told which.
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/repository/source_tree.h"

namespace quire::repository {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

/// A figure, by the JSON pointer to it, and where it has to be.
struct Goal {
  const char* file;
  const char* figure;
  double least = -kNone;
  double most = kNone;
};

constexpr Goal kGoals[] = {
    // Policies answer as full attention does, and in the order of spec G.3.
    {.file = "answers", .figure = "/full_minus_freekv_12_5", .most = 0.01},
    {.file = "answers", .figure = "/full", .least = 0.9, .most = 1},
    {.file = "policy", .figure = "/orderings_hold", .least = 1},
    // A decode step with its pages in a server, on a processor.
    {.file = "decode", .figure = "/offloaded_vs_resident", .most = 1.10},
    {.file = "decode", .figure = "/speculation_vs_blocking", .least = 1},
    {.file = "decode",
     .figure = "/model_layers/over_emulated_link/offloaded_vs_resident",
     .most = 1.10},
    {.file = "decode",
     .figure = "/model_layers/transports/grpc/offloaded_vs_resident",
     .most = 1.10},
    {.file = "decode", .figure = "/contiguous_vs_fragmented", .least = 1},
    {.file = "decode", .figure = "/double_vs_single_buffer", .least = 1},
    {.file = "decode", .figure = "/vs_arkvale_blocking", .least = 1},
    {.file = "decode", .figure = "/vs_shadowkv", .least = 1},
    // Only what is missing crosses the wire, and what is placed is what was selected.
    {.file = "elastic", .figure = "/moved_ratio", .most = 0.25},
    {.file = "elastic", .figure = "/slots_exact", .least = 1},
    {.file = "elastic", .figure = "/slots_exact_with_faults", .least = 1},
    {.file = "elastic", .figure = "/slots_exact_shm", .least = 1},
    {.file = "elastic", .figure = "/slots_exact_landing", .least = 1},
    // Transports against the limits and rivals of the same run.
    {.file = "transport", .figure = "/shm_vs_memcpy", .least = 0.85},
    {.file = "transport", .figure = "/ucx_cma_vs_raw", .least = 0.85},
    {.file = "transport", .figure = "/ucx_tcp_vs_raw", .least = 0.85},
    {.file = "transport", .figure = "/grpc_vs_raw_stream", .least = 0.85},
    {.file = "transport", .figure = "/scatter_vs_contiguous", .least = 0.8},
    {.file = "transport", .figure = "/shm_vs_redis", .least = 1},
    {.file = "transport", .figure = "/ucx_tcp_vs_redis", .least = 1},
    {.file = "transport", .figure = "/ucx_tcp_vs_mooncake", .least = 1},
    {.file = "select", .figure = "/select_vs_stream", .least = 0.8},
};

nlohmann::json Results(const std::string& name) {
  return nlohmann::json::parse(ReadText("bench/results/" + name + ".json"));
}

TEST(ResultsTest, FiguresThatAreKeptMeetTheirGoals) {
  for (const Goal& goal : kGoals) {
    SCOPED_TRACE(std::string(goal.file) + ".json " + goal.figure);
    const nlohmann::json results = Results(goal.file);
    const nlohmann::json::json_pointer at(goal.figure);
    ASSERT_TRUE(results.contains(at));
    const nlohmann::json& value = results.at(at);
    const double figure = value.is_boolean() ? value.get<bool>() : value.get<double>();
    EXPECT_GE(figure, goal.least);
    EXPECT_LE(figure, goal.most);
  }
}

TEST(ResultsTest, EveryPolicyHasAnAccuracyAtEveryBudget) {
  const nlohmann::json answers = Results("answers");
  for (const char* policy : {"arkvale", "clusterkv", "freekv", "infllm", "quest", "raas", "razor",
                             "shadowkv", "streaming"}) {
    for (const char* budget : {"6_25", "12_5", "25"}) {
      const std::string key = std::string(policy) + "_" + budget;
      ASSERT_TRUE(answers.contains(key)) << key;
      EXPECT_GE(answers.at(key).get<double>(), 0) << key;
      EXPECT_LE(answers.at(key).get<double>(), 1) << key;
    }
  }
}

TEST(ResultsTest, RatiosOfADecodeStepPointTheRightWayOverEveryTransport) {
  const nlohmann::json decode = Results("decode");
  for (const char* transport : {"shm", "ucx", "grpc"}) {
    SCOPED_TRACE(transport);
    const nlohmann::json& ratios = decode.at("transports").at(transport);
    for (const char* ratio : {"speculation_vs_blocking", "vs_arkvale_blocking", "vs_shadowkv"}) {
      EXPECT_GT(ratios.at(ratio).get<double>(), 1) << ratio;
    }
    const nlohmann::json& ablation = decode.at("ablation").at("transports").at(transport);
    for (const char* ratio : {"speculation_vs_blocking", "contiguous_vs_fragmented"}) {
      EXPECT_GT(ablation.at(ratio).get<double>(), 1) << ratio;
    }
  }
}

TEST(ResultsTest, AnswersAreOfEnoughSamplesAndFreeKvIsWithinAPointOfFullAttention) {
  const nlohmann::json answers = Results("answers");
  EXPECT_EQ(answers.at("freekv_within_1_point_at_12_5_by_interval").get<int>(), 1);
  size_t cells = 0;
  for (const auto& [name, cell] : answers.at("cells").items()) {
    for (const auto& [set, figures] : cell.at("sets").items()) {
      EXPECT_GE(figures.at("samples").get<int>(), 200) << name << ", " << set;
      ++cells;
    }
  }
  EXPECT_GT(cells, 100u);
}

TEST(ResultsTest, EveryBenchmarkSaysOnWhichMachineItRan) {
  size_t files = 0;
  for (const std::string& file : FilesUnder("bench/results", {".json"})) {
    const nlohmann::json results = nlohmann::json::parse(ReadText(file));
    if (!results.contains("benchmark")) continue;  // Of another command.
    EXPECT_TRUE(results.contains("machine")) << file;
    ++files;
  }
  EXPECT_GT(files, 5u);
}

}  // namespace
}  // namespace quire::repository
