// SPDX-License-Identifier: Apache-2.0
//
// quire torture cluster as a program: a short run breaks no promise, and the check can fail. A run
// that is killed leaves nothing behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "quire/clock.h"
#include "tests/kit/child_process.h"
#include "tests/kit/paths.h"
#include "tests/kit/temp_dir.h"

namespace quire {
namespace {

using ::testing::AnyOf;
using testing::ChildResult;
using ::testing::HasSubstr;

constexpr Duration kStatePatience = std::chrono::seconds(20);

ChildResult TortureCluster(std::vector<std::string> args) {
  args.insert(args.begin(), {"torture", "cluster", "--json"});
  return testing::RunChild(QUIRE_BINARY_DIR "/bin/quire", std::move(args));
}

TEST(TortureClusterProcessTest, AShortRunLosesNothing) {
  // With this seed a node is cut off, a disk fails, and etcd's leader dies.
  const ChildResult result = TortureCluster({"--seconds", "8", "--seed", "1308"});
  ASSERT_EQ(result.exit_code, 0) << result.err << result.out;
  EXPECT_THAT(result.err, HasSubstr("seed 1308"));
  const auto json = nlohmann::json::parse(result.out);
  for (const char* key : {"lost", "wrong", "resurrected", "denied"}) EXPECT_EQ(json[key], 0) << key;
  for (const char* key : {"acknowledged", "reads", "kept"}) EXPECT_GT(json[key], 0) << key;
  EXPECT_EQ(json["etcd_members"], 3);
  EXPECT_THAT(json["network"], AnyOf("namespaces", "loopback")) << result.err;
  EXPECT_GE(json["faults"].size(), 3u) << result.out;
  if (json["network"] == "namespaces") {
    for (const char* fault : {"partition", "one_way", "throttle", "disk_error", "etcd_leader"}) {
      EXPECT_TRUE(json["faults"].contains(fault)) << fault << result.out;
    }
  }
  EXPECT_FALSE(json["unavailable_s_max"].empty()) << result.out;
  for (const char* key : {"read_unavailable_s_max", "put_unavailable_s_max"}) {
    EXPECT_LE(json[key], json["bounds"][key]) << result.out;
  }
}

TEST(TortureClusterProcessTest, ADiskThatIsLostWithoutReplicasIsNoticed) {
  const ChildResult result = TortureCluster({"--seconds", "6", "--seed", "20", "--replicas", "1",
                                             "--lose-disk", "--network", "loopback"});
  EXPECT_EQ(result.exit_code, 1) << result.err << result.out;
  EXPECT_THAT(result.err, HasSubstr("broke a promise; repeat with --seed 20"));
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_GT(json["lost"], 0) << result.out;
  EXPECT_LT(json["lost"], json["kept"]) << result.out;
  EXPECT_EQ(json["wrong"], 0) << result.out;
}

/// Processes that have `word` in their command lines.
size_t ProcessesNaming(const std::string& word) {
  size_t found = 0;
  std::error_code error;
  for (const auto& process : std::filesystem::directory_iterator("/proc", error)) {
    std::ostringstream command;
    // A process that ends meanwhile gives an error, and counts as gone.
    command << std::ifstream(process.path() / "cmdline", std::ios::binary).rdbuf();
    if (command.str().find(word) != std::string::npos) ++found;
  }
  return found;
}

bool WaitUntil(const std::function<bool()>& holds) {
  const TimePoint deadline = SystemClock().Now() + kStatePatience;
  while (!holds()) {
    if (SystemClock().Now() > deadline) return false;
    SystemClock().Sleep(std::chrono::milliseconds(50));
  }
  return true;
}

TEST(TortureClusterProcessTest, AKilledRunLeavesNoProcess) {
  const testing::TempDir dir;
  const std::string data_dir = dir / "data";
  testing::ChildProcess run(
      QUIRE_BINARY_DIR "/bin/quire",
      {"torture", "cluster", "--network", "namespaces", "--data-dir", data_dir}, dir / "stderr");
  const auto is_refused = [&run] {
    return run.Stderr().find("take --network loopback") != std::string::npos;
  };
  // The program and its copy inside, three etcds, and the first server.
  constexpr size_t kAllButSome = 6;
  ASSERT_TRUE(WaitUntil([&] { return is_refused() || ProcessesNaming(data_dir) >= kAllButSome; }))
      << run.Stderr();
  if (is_refused()) GTEST_SKIP() << run.Stderr();
  run.Signal(SIGKILL);
  EXPECT_EQ(run.Wait(), -SIGKILL);
  EXPECT_TRUE(WaitUntil([&] { return ProcessesNaming(data_dir) == 0; }));
}

TEST(TortureClusterProcessTest, AFaultThatCannotBeMadeIsRefused) {
  ChildResult result = TortureCluster({"--network", "loopback", "--faults", "kill,flood"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("there is no 'flood' on loopback; take some of kill,stop,"));
  result = TortureCluster({"--network", "loopback", "--faults", "disk_error"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("there is no 'disk_error' on loopback"));
}

TEST(TortureClusterProcessTest, MoreReplicasThanNodesAreRefused) {
  const ChildResult result = TortureCluster({"--nodes", "2", "--replicas", "3"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("--replicas is 3, with 2 nodes"));
}

}  // namespace
}  // namespace quire
