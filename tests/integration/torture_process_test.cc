// SPDX-License-Identifier: Apache-2.0
//
// quire torture as a program: a few rounds find no fault, reach the intended points, and report it.
// bench/torture/store/history_test.cc shows that the comparison can fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/kit/child_process.h"
#include "tests/kit/paths.h"

namespace quire {
namespace {

using testing::ChildResult;
using ::testing::HasSubstr;
using testing::RunChild;

ChildResult Torture(std::vector<std::string> args) {
  args.insert(args.begin(), "torture");
  return RunChild(QUIRE_BINARY_DIR "/bin/quire", std::move(args));
}

// Promises 2 and 3: bytes that fail their checksum are never returned, and acknowledged data is
// never lost. They hold wherever the process dies and whatever the device does.
TEST(TortureProcessTest, AFewRoundsOfCrashesAndFaultsLoseNothing) {
  const ChildResult result = Torture({"crash", "--rounds", "8", "--seed", "20", "--events", "300",
                                      "--recovery-bytes", "16MiB", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err << result.out;
  EXPECT_THAT(result.err, HasSubstr("seed 20"));
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["rounds"], 8);
  EXPECT_EQ(json["seed"], 20);
  for (const char* key : {"lost", "corrupt", "appeared", "fsck_problems", "space_problems",
                          "corrupt_served", "appeared_after_errors", "lost_after_errors"}) {
    EXPECT_EQ(json[key], 0) << key;
  }
  EXPECT_GT(json["acknowledged"], 0);
  EXPECT_GT(json["faults_injected"], 0);
  EXPECT_GT(json["refused"], 0) << "the faults were never met";
  EXPECT_GT(json["recovery_s_per_gib"], 0.0);
  uint64_t killed = 0;
  for (const auto& [point, count] : json["killed_at"].items()) killed += count.get<uint64_t>();
  EXPECT_EQ(killed, 8u);
  EXPECT_GE(json["killed_at"].size(), 4u) << json["killed_at"];
}

// Promise 3 through the program; bench/torture/power_run_test.cc has more rounds.
TEST(TortureProcessTest, AFewPowerFailuresLoseNothing) {
  const ChildResult result = Torture({"power", "--rounds", "12", "--seed", "20", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err << result.out;
  EXPECT_THAT(result.err, HasSubstr("seed 20"));
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["rounds"], 12);
  EXPECT_EQ(json["seed"], 20);
  for (const char* key :
       {"lost", "corrupt_served", "half", "appeared", "refused_to_open", "space_problems"}) {
    EXPECT_EQ(json[key], 0) << key;
  }
  EXPECT_GT(json["acknowledged"], 0);
  EXPECT_GT(json["persisted"], 0);
  EXPECT_GT(json["changes_forgotten"], 0);
  EXPECT_EQ(Torture({"power", "--rounds", "0"}).exit_code, 1);
}

// Promises 1, 3 and 6: clients of different hardware share their puts. Acknowledged data stays
// until it is deleted, and then all of it goes.
TEST(TortureProcessTest, ALoadOfClientProcessesMissesNothingAndLeavesNothing) {
  const ChildResult result = Torture({"load", "--seconds", "2", "--clients", "4", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err << result.out;
  const auto json = nlohmann::json::parse(result.out);
  for (const char* key : {"not_found_of_acknowledged", "wrong_bytes", "bytes_left", "failed",
                          "fsck_problems", "fsck_segments"}) {
    EXPECT_EQ(json[key], 0) << key << result.out;
  }
  EXPECT_LE(json["seconds_until_empty"], json["bounds"]["seconds_until_empty"]);
  EXPECT_GT(json["segments_put_differing"], 0) << "the clients never met";
  for (const char* operation : {"put", "continue", "read", "ask", "delete"}) {
    EXPECT_GT(json["operations"][operation]["done"], 0) << operation;
  }
}

TEST(TortureProcessTest, ASoakReportsTurnoversAndMemory) {
  const ChildResult result =
      Torture({"soak", "--seconds", "4", "--ssd-bytes", "16MiB", "--dram-bytes", "8MiB", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err << result.out;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_GT(json["turnovers"], 0.0);
  for (const char* key : {"overhead_bytes_per_gib", "growth_bytes", "growth_noise_bytes",
                          "private_bytes", "cached_bytes"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json["lost"], 0);
  EXPECT_EQ(json["corrupt"], 0);
}

TEST(TortureProcessTest, HelpHasExamplesAndNonsenseIsRefused) {
  const ChildResult help = Torture({"crash", "--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.out, HasSubstr("quire torture crash --rounds 50 --json"));
  EXPECT_EQ(Torture({"crash", "--rounds", "0"}).exit_code, 1);
  EXPECT_EQ(Torture({}).exit_code, 2);
}

}  // namespace
}  // namespace quire
