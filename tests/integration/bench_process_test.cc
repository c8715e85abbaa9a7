// SPDX-License-Identifier: Apache-2.0
//
// quire bench transport and select as programs. Mooncake Store needs an installation, so it takes
// no part. Redis does where installed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/integration/bench_report.h"
#include "tests/integration/command_help.h"
#include "tests/kit/temp_dir.h"
#include "transport/ucx/ucx.h"

namespace quire {
namespace {

using nlohmann::json;
using ::testing::AnyOf;
using testing::BenchReport;
using testing::ExpectPositive;
using testing::ExpectShares;
using testing::Figure;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Part;

/// Round trips of `transport` with nothing to move.
void ExpectEmptyRecalls(const json& report, const std::string& transport) {
  const std::string of_transport = "empty_recall_" + transport + "_16k_";
  ExpectPositive(report, {of_transport + "p50_us", of_transport + "p99_us"});
  EXPECT_LE(report.value(of_transport + "p50_us", 0.0), report.value(of_transport + "p99_us", 0.0));
}

/// Checks the latencies of the recalls of `way` in a part of the report.
void ExpectLatencies(const json& part, const std::string& way) {
  const json latencies = Part(part, way);
  ExpectPositive(latencies, {"p50_us", "p99_us", "recalls"});
  EXPECT_LE(Figure(latencies, "p50_us"), Figure(latencies, "p99_us")) << way;
}

/// Checks recalls as large as a decode step's, of every size, against Redis if it takes part.
void ExpectStepRecalls(const json& report, const std::vector<std::string>& ours) {
  for (const int units : {16, 32, 64}) {
    const json part = Part(Part(report, "step_recalls"), "units_" + std::to_string(units));
    EXPECT_EQ(Figure(part, "bytes"), units * 16384);
    for (const std::string& way : ours) ExpectLatencies(part, way);
    if (part.value("absent", json::object()).contains("redis")) continue;
    for (const char* const way :
         {"redis_unix", "redis_unix_by_four", "redis_tcp", "redis_tcp_by_four"}) {
      ExpectLatencies(part, way);
    }
    for (const std::string& way : ours) {
      ExpectPositive(part, {way + "_vs_redis_p50", way + "_vs_redis_p99"});
    }
    EXPECT_FALSE(part.contains("shm_vs_mooncake_p50")) << "it took no part";
  }
}

/// Expects a rate above 0 for every tenant of one server.
void ExpectTenants(const json& report, const std::vector<std::string>& ours) {
  for (const std::string& way : ours) {
    const json part = Part(Part(report, "tenants"), way);
    EXPECT_EQ(Figure(part, "tenants"), 4);
    ExpectPositive(part,
                   {"total_gb_per_s", "alone_gb_per_s", "total_vs_alone", "p50_us", "recalls"});
    // Tenants make few recalls. On a busy machine one may have made none before the fastest has
    // made all.
    ExpectShares(part, {"slowest_vs_fastest"});
    double total = 0;
    for (const json& rate : part.value("gb_per_s", json::array())) total += rate.get<double>();
    EXPECT_NEAR(total, Figure(part, "total_gb_per_s"), 1e-6);
    EXPECT_LE(Figure(part, "p50_us"), Figure(part, "p99_us"));
  }
}

/// Expects no pacing in any program, as far as the kernel reports it.
void ExpectCongestionControls(const json& report, const std::vector<std::string>& programs) {
  const json names = Part(report, "congestion_control");
  EXPECT_NE(names.value("host", ""), "") << names;
  for (const std::string& program : programs) {
    EXPECT_THAT(names.value(program, ""), AnyOf("cubic", "reno", "unknown")) << program;
  }
}

TEST(BenchProcessTest, TransportReportsWhatGoalsAreSetFor) {
  std::vector<std::string> ways = {"contiguous",
                                   "memcpy",
                                   "copy_around_cache",
                                   "copy_checked",
                                   "copy_checked_by_two",
                                   "copy_fetching_ahead",
                                   "shm",
                                   "shm_in_place",
                                   "grpc",
                                   "raw_grpc",
                                   "redis_unix",
                                   "redis_unix_by_four",
                                   "redis_tcp",
                                   "redis_tcp_by_four",
                                   "step_recalls",
                                   "tenants"};
  const bool ucx = UcxAvailable();
  std::vector<std::string> ours = {"shm", "grpc"};
  if (ucx) {
    ours.push_back("ucx_tcp");
    ways.insert(ways.end(), {"ucx_tcp", "raw_ucx_tcp"});
  }
  std::string names;
  for (const std::string& way : ways) names += (names.empty() ? "" : ",") + way;
  const json report =
      BenchReport({"transport", "--document-bytes", "32MiB", "--sets", "1", "--rounds", "1",
                   "--empty-recalls", "20", "--step-recalls", "20", "--ways", names});
  EXPECT_EQ(report.value("document_bytes", 0), 32 << 20);
  EXPECT_EQ(report.value("document_capped_by_memory", true), false);
  EXPECT_TRUE(report.contains("last_level_cache_bytes"));
  ExpectPositive(
      report,
      {"shm_vs_memcpy", "shm_zero_copy_units_per_s", "grpc_vs_raw_stream", "scatter_vs_contiguous",
       "scatter_vs_large_units", "scatter_vs_large_units_shm", "scatter_vs_large_units_grpc",
       "encode_us_per_10k_units", "plan_us_per_10k_units", "plan_step_us_per_10k_units",
       "recall_us_per_10k_units", "recall_step_us_per_10k_units"});
  EXPECT_GT(Figure(report, "recall_us_per_10k_units"), Figure(report, "plan_us_per_10k_units"));
  EXPECT_LE(Figure(report, "shm_vs_memcpy_by_two"), Figure(report, "shm_vs_memcpy"));
  EXPECT_THAT(report.value("memcpy_way", ""),
              AnyOf("memcpy", "copy_around_cache", "copy_checked", "copy_fetching_ahead"));
  ExpectPositive(Part(report, "cpu_s_per_gib"), {"shm_16k", "shm_128k", "grpc_16k", "memcpy_16k"});
  ExpectStepRecalls(report, ours);
  ExpectTenants(report, ours);
  ExpectEmptyRecalls(report, "shm");
  ExpectEmptyRecalls(report, "grpc");
  ExpectCongestionControls(report, {"quire", "raw_grpc"});
  const bool redis = !report.value("absent", json::object()).contains("redis");
  if (redis) {
    ExpectPositive(report, {"shm_vs_redis", "redis_tcp_by_four_16k_gb_per_s"});
    EXPECT_THAT(report.value("shm_vs_redis_way", ""), HasSubstr("redis_"));
    ExpectPositive(Part(report, "cpu_s_per_gib"),
                   {"redis_unix_16k", "redis_tcp_by_four_16k", "redis_tcp_by_four_128k"});
    ExpectCongestionControls(report, {"redis"});
    for (const char* const size : {"16k", "128k"}) {
      const json threads =
          Part(Part(report, "redis_io_threads"), "redis_tcp_by_four_" + std::string(size));
      EXPECT_TRUE(threads.contains("io_threads_active")) << threads;
      ExpectShares(threads, {"threaded_writes_share"});
    }
  }
  EXPECT_FALSE(report.contains("ucx_tcp_vs_mooncake")) << "it took no part";
  if (!ucx) return;
  ExpectPositive(report, {"ucx_tcp_vs_raw", "ucx_tcp_vs_raw_16k"});
  if (redis) ExpectPositive(report, {"ucx_tcp_vs_redis"});
  ExpectPositive(Part(report, "cpu_s_per_gib"), {"ucx_tcp_16k", "ucx_tcp_128k"});
  ExpectEmptyRecalls(report, "ucx_tcp");
}

TEST(BenchProcessTest, SelectReportsWhatGoalsAreSetFor) {
  const json report = BenchReport({"select", "--mib", "2", "--rounds", "1", "--trials", "1"});
  ExpectPositive(report, {"select_vs_stream", "ms_1m_tokens_one_layer"});
  EXPECT_EQ(Figure(report, "min_max_f16_g4_vs_stream"), Figure(report, "select_vs_stream"));
  for (const std::string limit : {"stream", "limit"}) {
    const char* const worst = limit == "stream" ? "select_worst" : "select_limit_worst";
    const double least = Figure(report, "select_vs_" + limit + "_worst");
    EXPECT_EQ(Figure(report, report.value(worst, "") + "_vs_" + limit), least);
    for (const char* kind : {"min_max", "mean", "centre_deviation", "centre_radius", "disc"}) {
      for (const char* shape : {"f16_g1", "f16_g8", "bf16_g2", "f32_g4"}) {
        EXPECT_GE(Figure(report, std::string(kind) + "_" + shape + "_vs_" + limit), least);
      }
    }
  }
  EXPECT_EQ(report.value("exact_sets", false), true);
  EXPECT_THAT(report.value("select_stream", ""), ::testing::AnyOf("words", "vectors"));
  EXPECT_EQ(report.value("digest_mib", 0), 2);
  EXPECT_TRUE(report.contains("last_level_cache_bytes"));
}

TEST(BenchProcessTest, ObjectsReportsEveryWayOfEverySize) {
  // Mooncake is not installed by tests.
  const json report =
      BenchReport({"objects", "--sizes", "64KiB,1MiB", "--stored-bytes", "8MiB", "--round-bytes",
                   "4MiB", "--rounds", "1", "--singles", "3", "--ways",
                   "shm,shm_in_place,shm_to_disk,grpc,redis_unix,redis_tcp"});
  const bool redis = !report.value("absent", json::object()).contains("redis");
  for (const std::string size : {"64k", "1m"}) {
    for (const std::string& way : {"get_shm_", "get_shm_in_place_", "get_grpc_", "put_shm_",
                                   "put_grpc_", "put_shm_to_disk_"}) {
      ExpectPositive(report, {way + size + "_gb_per_s", way + size + "_p50_us"});
      EXPECT_LE(Figure(report, way + size + "_p50_us"), Figure(report, way + size + "_p99_us"));
    }
    if (redis) ExpectPositive(report, {"get_shm_vs_redis_" + size, "put_tcp_vs_best_" + size});
  }
  if (redis) {
    EXPECT_EQ(Figure(report, "get_shm_vs_redis"), std::min(Figure(report, "get_shm_vs_redis_64k"),
                                                           Figure(report, "get_shm_vs_redis_1m")));
  }
  testing::ExpectMachine(report);
}

TEST(BenchProcessTest, AgentsFindTheirPromptsBeforeAndAfterARestart) {
  const json report = BenchReport(
      {"agents", "--sessions", "2", "--turns", "10", "--scale", "32", "--dram-bytes", "64MiB"});
  EXPECT_GT(Figure(report, "seen_before_2"), 0.7);
  EXPECT_EQ(Figure(report, "hits_vs_ideal_2"), 1.0);
  EXPECT_EQ(Figure(report, "hits_after_restart_vs_ideal"), 1.0);
  ExpectPositive(report, {"first_page_p50_us_2", "first_page_p99_us_2_after_restart", "bytes_put_2",
                          "bytes_read_2_after_restart"});
  testing::ExpectMachine(report);
}

TEST(BenchProcessTest, TracingReportsWhatGoalsAreSetFor) {
  const json report = BenchReport({"tracing", "--repeats", "1", "--rounds", "3", "--calls", "150"});
  ExpectPositive(report, {"trace_off_overhead", "trace_1_percent_overhead", "us_per_recall_off",
                          "us_per_recall_hooks", "us_per_recall_sampled"});
  EXPECT_EQ(Figure(report, "spans_dropped"), 0);
}

// Lists the benchmarks from the help, so that new ones are included.
TEST(BenchProcessTest, EveryBenchmarkHasHelpWithExamples) {
  testing::ExpectHelpWithExamples({"bench"});
  const std::vector<std::string> benches = testing::Subcommands("bench");
  EXPECT_THAT(benches, ::testing::IsSupersetOf({"decode", "recall"}));
  for (const std::string& bench : benches) testing::ExpectHelpWithExamples({"bench", bench});
}

TEST(BenchProcessTest, NothingToMeasureIsAnErrorAndAnUnknownBenchmarkWrongUsage) {
  const testing::TempDir dir;
  const std::string empty = dir / "empty.txt";
  std::ofstream(empty).flush();
  const std::string quire = std::string(QUIRE_BINARY_DIR) + "/bin/quire";
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"bench", "recall", "--steps", "0"},
        {"bench", "trace", "--trace", empty},
        {"bench", "answers", "--policies", ""}}) {
    const testing::ChildResult result = testing::RunChild(quire, args);
    EXPECT_EQ(result.exit_code, 1) << ::testing::PrintToString(args);
    EXPECT_THAT(result.err, HasSubstr("quire: ")) << ::testing::PrintToString(args);
  }
  EXPECT_EQ(testing::RunChild(quire, {"bench", "nothing"}).exit_code, 2);
}

std::string TextOf(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// After a change of results or of plots:
//   quire bench NAME --from bench/results/NAME.json --plot bench/results/plots/NAME.svg
TEST(BenchProcessTest, KeptPlotsAreThoseOfTheKeptResults) {
  const std::set<std::string> without_series = {"demo_transports", "elastic", "registry",
                                                "tracing"};
  const testing::TempDir dir;
  size_t plots = 0;
  for (const auto& entry : std::filesystem::directory_iterator(QUIRE_SOURCE_DIR "/bench/results")) {
    if (entry.path().extension() != ".json") continue;
    const std::string name = entry.path().stem();
    const std::string benchmark = json::parse(TextOf(entry.path())).value("benchmark", "");
    std::vector<std::string> args = {"bench", benchmark};
    if (name == "torture_cluster") args = {"torture", "cluster"};
    if (args.back().empty() || without_series.contains(benchmark)) continue;
    const std::string drawn = dir / name + ".svg";
    args.insert(args.end(), {"--from", entry.path(), "--plot", drawn});
    const testing::ChildResult result =
        testing::RunChild(QUIRE_BINARY_DIR "/bin/quire", std::move(args));
    EXPECT_EQ(result.exit_code, 0) << entry.path() << result.err;
    const std::filesystem::path kept = entry.path().parent_path() / "plots" / (name + ".svg");
    EXPECT_EQ(TextOf(drawn), TextOf(kept)) << kept;
    ++plots;
  }
  EXPECT_GE(plots, 17u);
}

TEST(BenchProcessTest, ReportsThatHaveNoPlotAreRefusedWithWhatToGive) {
  const testing::TempDir dir;
  const auto refused = [&](const std::string& text, std::vector<std::string> more) {
    std::ofstream(dir / "report.json") << text;
    std::vector<std::string> args = {"bench", "trace", "--from", dir / "report.json"};
    args.insert(args.end(), more.begin(), more.end());
    const testing::ChildResult result =
        testing::RunChild(QUIRE_BINARY_DIR "/bin/quire", std::move(args));
    EXPECT_EQ(result.exit_code, 1) << text;
    return result.err;
  };
  const std::string plot = dir / "plot.svg";
  EXPECT_THAT(refused("{", {"--plot", plot}), HasSubstr("give what an earlier --json printed"));
  EXPECT_THAT(refused(R"({"benchmark": "store"})", {"--plot", plot}),
              HasSubstr("no report of quire bench trace"));
  EXPECT_THAT(refused(R"({"benchmark": "trace"})", {"--plot", plot}), HasSubstr("no figures"));
  EXPECT_THAT(refused(R"({"benchmark": "trace"})", {}), HasSubstr("--plot FILE.svg"));
  EXPECT_FALSE(std::filesystem::exists(plot));
}

}  // namespace
}  // namespace quire
