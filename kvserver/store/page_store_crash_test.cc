// SPDX-License-Identifier: Apache-2.0
//
// Promise 3 against SIGKILL. A child process puts segments and reports each acknowledgement through
// a pipe. It is killed at some moment. Its store must hold everything acknowledged as persisted,
// and nothing incomplete.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "kvserver/store/testing/store_kit.h"
#include "tests/kit/child_process.h"
#include "tests/kit/temp_dir.h"

namespace quire::kvserver::testing {
namespace {

using quire::testing::ChildProcess;
using quire::testing::TempDir;

StatusOr<std::unique_ptr<PageStore>> OpenStore(const std::string& path) {
  return PageStore::Open({.ssd_path = path, .dram_bytes = 1 << 20});
}

/// The child: puts an endless chain of segments from `first_seed` on, the odd ones in memory only.
/// It writes each seed as a line to standard output when its put is acknowledged.
int PutForEver(const std::string& path, uint64_t first_seed) {
  const auto store = OpenStore(path);
  if (!store.ok()) return 1;
  for (uint64_t seed = first_seed;; ++seed) {
    const Durability durability = seed % 2 == 0 ? Durability::kPersisted : Durability::kMemory;
    if (!PutTestSegment(**store, LargeUnitSpec(), seed, kRootKey, 0, durability).ok()) return 1;
    const std::string line = std::to_string(seed) + "\n";
    if (write(STDOUT_FILENO, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
      return 1;
    }
  }
}

/// Reads the next acknowledged seed. Returns false when the child is gone and all were read.
bool Next(ChildProcess& child, uint64_t* seed) {
  std::string line;
  if (!child.ReadLine(&line)) return false;
  *seed = std::stoull(line);
  return true;
}

TEST(PageStoreCrashTest, Promise3WhatWasAcknowledgedAsPersistedSurvivesSigkill) {
  TempDir dir;
  const KvSpec spec = LargeUnitSpec();
  SeededRandom random(11);
  uint64_t next_seed = 0;
  std::vector<uint64_t> persisted;
  for (int round = 0; round < 5; ++round) {
    {
      ChildProcess child("/proc/self/exe",
                         {"--put-for-ever", dir / "store", std::to_string(next_seed)},
                         dir / "stderr");
      uint64_t seed = 0;
      const uint64_t wanted = 1 + random.Below(20);
      const auto acknowledge = [&] {
        if (seed % 2 == 0) persisted.push_back(seed);
        next_seed = seed + 1;
      };
      for (uint64_t i = 0; i < wanted; ++i) {
        ASSERT_TRUE(Next(child, &seed));
        acknowledge();
      }
      child.Signal(SIGKILL);
      EXPECT_EQ(child.Wait(), -SIGKILL) << "it ended by itself: " << child.Stderr();
      while (Next(child, &seed)) acknowledge();
    }
    const auto store = OpenStore(dir / "store");
    ASSERT_TRUE(store.ok()) << store.status();
    for (const uint64_t seed : persisted) {
      const auto tokens = MakeTokens(spec.segment_tokens(), seed);
      const auto keys = (*store)->Lookup("default", spec, tokens);
      ASSERT_EQ(keys.value().size(), 1u) << "segment " << seed << " is lost";
    }
    // Acknowledged in memory only, or not at all: each may be there or not, but never in part.
    for (uint64_t seed = 0; seed < next_seed + 2; ++seed) {
      const auto tokens = MakeTokens(spec.segment_tokens(), seed);
      const auto keys = (*store)->Lookup("default", spec, tokens).value();
      if (keys.empty()) continue;
      const auto payload = MakePayload(spec, tokens.size(), seed);
      EXPECT_EQ(ReadSegment(**store, spec, {keys[0], tokens, payload}).value(), payload);
      EXPECT_TRUE((*store)->ReadDigests("default", keys[0], 1).ok());
    }
    next_seed += 2;  // skip puts that the child may not have reported
  }
}

}  // namespace
}  // namespace quire::kvserver::testing

int main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == "--put-for-ever") {
    return quire::kvserver::testing::PutForEver(argv[2], std::stoull(argv[3]));
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
