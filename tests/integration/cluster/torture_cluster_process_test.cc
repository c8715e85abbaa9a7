// SPDX-License-Identifier: Apache-2.0
//
// quire torture cluster as a program: a short run breaks no promise, and the check can fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/kit/child_process.h"
#include "tests/kit/paths.h"

namespace quire {
namespace {

using testing::ChildResult;
using ::testing::HasSubstr;

ChildResult TortureCluster(std::vector<std::string> args) {
  args.insert(args.begin(), {"torture", "cluster", "--json"});
  return testing::RunChild(QUIRE_BINARY_DIR "/bin/quire", std::move(args));
}

TEST(TortureClusterProcessTest, AShortRunLosesNothing) {
  const ChildResult result = TortureCluster({"--seconds", "10", "--seed", "20"});
  ASSERT_EQ(result.exit_code, 0) << result.err << result.out;
  EXPECT_THAT(result.err, HasSubstr("seed 20"));
  const auto json = nlohmann::json::parse(result.out);
  for (const char* key : {"lost", "wrong", "resurrected", "denied"}) EXPECT_EQ(json[key], 0) << key;
  for (const char* key : {"acknowledged", "reads", "kept"}) EXPECT_GT(json[key], 0) << key;
  EXPECT_GE(json["faults"].size(), 3u) << result.out;
  EXPECT_FALSE(json["unavailable_s_max"].empty()) << result.out;
}

TEST(TortureClusterProcessTest, ADiskThatIsLostWithoutReplicasIsNoticed) {
  const ChildResult result =
      TortureCluster({"--seconds", "3", "--seed", "20", "--replicas", "1", "--lose-disk"});
  EXPECT_EQ(result.exit_code, 1) << result.err << result.out;
  EXPECT_THAT(result.err, HasSubstr("broke a promise; repeat with --seed 20"));
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_GT(json["lost"], 0) << result.out;
  EXPECT_LT(json["lost"], json["kept"]) << result.out;
  EXPECT_EQ(json["wrong"], 0) << result.out;
}

TEST(TortureClusterProcessTest, MoreReplicasThanNodesAreRefused) {
  const ChildResult result = TortureCluster({"--nodes", "2", "--replicas", "3"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("--replicas is 3, with 2 nodes"));
}

}  // namespace
}  // namespace quire
