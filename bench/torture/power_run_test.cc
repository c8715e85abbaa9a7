// SPDX-License-Identifier: Apache-2.0
//
// Promise 3 against power failures: a few dozen rounds find nothing wrong, and as soon as the disk
// leaves out any kind of sync that the store depends on, they do.
#include "bench/torture/power_run.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <utility>

namespace quire::torture {
namespace {

constexpr uint32_t kRounds = 48;

PowerReport RunRounds(uint32_t rounds, kvserver::PowerDisk::IgnoresSync ignores_sync,
                      std::string* problems) {
  std::ostringstream log;
  const auto report = RunPowerFailures({.rounds = rounds,
                                        .seed = 7,
                                        .ignores_sync = std::move(ignores_sync),
                                        .ends_when_unsound = true,
                                        .log = &log},
                                       [](const std::string&) {});
  EXPECT_TRUE(report.ok()) << report.status();
  *problems = log.str();
  return report.value_or(PowerReport{});
}

TEST(PowerRunTest, Promise3PowerFailuresLoseNothingThatWasPersisted) {
  std::string problems;
  const PowerReport report = RunRounds(kRounds, nullptr, &problems);
  EXPECT_EQ(report.rounds, kRounds);
  EXPECT_EQ(report.totals.lost, 0u) << problems;
  EXPECT_EQ(report.totals.half, 0u) << problems;
  EXPECT_EQ(report.totals.appeared, 0u) << problems;
  EXPECT_EQ(report.totals.corrupt, 0u) << problems;
  EXPECT_EQ(report.refused_to_open, 0u) << problems;
  EXPECT_GT(report.totals.persisted, 100u);
  EXPECT_GT(report.totals.acknowledged, report.totals.persisted);
  EXPECT_GT(report.changes_forgotten, 0u) << "nothing was forgotten: the test shows nothing";
  EXPECT_GT(report.changes_survived, 0u);
  EXPECT_GT(report.cut_while_opening, 0u);
}

/// The syncs of one kind of file or directory.
struct Sync {
  const char* name;
  bool (*is_it)(const std::string& path);
};

class NeededSyncTest : public ::testing::TestWithParam<Sync> {};

TEST_P(NeededSyncTest, WithoutItTheRunFindsALossOrAStoreThatDoesNotOpen) {
  std::string problems;
  EXPECT_FALSE(RunRounds(256, GetParam().is_it, &problems).sound());
}

INSTANTIATE_TEST_SUITE_P(
    Store, NeededSyncTest,
    ::testing::Values(
        Sync{"ParentOfTheDataDirectory", [](const std::string& path) { return path == "/disk"; }},
        Sync{"DataDirectory", [](const std::string& path) { return path == "/disk/store"; }},
        Sync{"VolumeNames", [](const std::string& path) { return path == "/disk/store/payload"; }},
        Sync{"Volumes", [](const std::string& path) { return path.ends_with(".vol"); }},
        Sync{"HeadersOfNewVolumes",
             [](const std::string& path) { return path.ends_with(".vol.tmp"); }},
        Sync{"MetadataNames",
             [](const std::string& path) { return path == "/disk/store/metadata"; }},
        Sync{"Log", [](const std::string& path) { return path.ends_with(".log"); }}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace quire::torture
