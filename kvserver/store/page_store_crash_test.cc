// SPDX-License-Identifier: Apache-2.0
//
// Promise 3 against SIGKILL: a child process puts segments and reports each acknowledgement through
// a pipe; it is killed at some moment, and the store it leaves behind must hold everything that it
// acknowledged as persisted, and nothing by halves.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "kvserver/store/testing/store_kit.h"
#include "tests/kit/temp_dir.h"

extern char** environ;

namespace quire::kvserver::testing {
namespace {

using quire::testing::TempDir;

StatusOr<std::unique_ptr<PageStore>> OpenStore(const std::string& path) {
  return PageStore::Open({.ssd_path = path, .dram_bytes = 1 << 20});
}

/// The child: puts a chain of segments from `first_seed` on for ever, the odd ones in memory only,
/// and writes each seed to standard output once its put is acknowledged.
int PutForEver(const std::string& path, uint64_t first_seed) {
  const auto store = OpenStore(path);
  if (!store.ok()) return 1;
  for (uint64_t seed = first_seed;; ++seed) {
    const Durability durability = seed % 2 == 0 ? Durability::kPersisted : Durability::kMemory;
    if (!PutTestSegment(**store, LargeUnitSpec(), seed, kRootKey, 0, durability).ok()) return 1;
    if (write(STDOUT_FILENO, &seed, sizeof seed) != sizeof seed) return 1;
  }
}

/// A running child, and the pipe that its acknowledgements come through.
class Child {
 public:
  Child(const std::string& path, uint64_t first_seed) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    acknowledgements_ = ends[0];
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    std::string program = "/proc/self/exe", flag = "--put-for-ever", directory = path;
    std::string seed = std::to_string(first_seed);
    char* argv[] = {program.data(), flag.data(), directory.data(), seed.data(), nullptr};
    EXPECT_EQ(posix_spawn(&pid_, program.c_str(), &actions, nullptr, argv, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
  }
  ~Child() { close(acknowledgements_); }

  /// The next acknowledged seed; false when the child is gone and all were read.
  bool Next(uint64_t* seed) {
    return read(acknowledgements_, seed, sizeof *seed) == static_cast<ssize_t>(sizeof *seed);
  }
  void Kill() {
    EXPECT_EQ(kill(pid_, SIGKILL), 0);
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    EXPECT_TRUE(WIFSIGNALED(status)) << "it ended by itself";
  }

 private:
  pid_t pid_ = -1;
  int acknowledgements_ = -1;
};

TEST(PageStoreCrashTest, Promise3WhatWasAcknowledgedAsPersistedSurvivesSigkill) {
  TempDir dir;
  const KvSpec spec = LargeUnitSpec();
  SeededRandom random(11);
  uint64_t next_seed = 0;
  std::vector<uint64_t> persisted;
  for (int round = 0; round < 5; ++round) {
    {
      Child child(dir.path(), next_seed);
      uint64_t seed = 0;
      const uint64_t wanted = 1 + random.Below(20);
      const auto acknowledge = [&] {
        if (seed % 2 == 0) persisted.push_back(seed);
        next_seed = seed + 1;
      };
      for (uint64_t i = 0; i < wanted; ++i) {
        ASSERT_TRUE(child.Next(&seed));
        acknowledge();
      }
      child.Kill();
      while (child.Next(&seed)) acknowledge();
    }
    const auto store = OpenStore(dir.path());
    ASSERT_TRUE(store.ok()) << store.status();
    for (const uint64_t seed : persisted) {
      const auto tokens = MakeTokens(spec.segment_tokens(), seed);
      const auto keys = (*store)->Lookup("default", spec, tokens);
      ASSERT_EQ(keys.value().size(), 1u) << "segment " << seed << " is lost";
    }
    // Acknowledged in memory only, or not at all: each may be there or not, but whole.
    for (uint64_t seed = 0; seed < next_seed + 2; ++seed) {
      const auto tokens = MakeTokens(spec.segment_tokens(), seed);
      const auto keys = (*store)->Lookup("default", spec, tokens).value();
      if (keys.empty()) continue;
      const auto payload = MakePayload(spec, tokens.size(), seed);
      EXPECT_EQ(ReadSegment(**store, spec, {keys[0], tokens, payload}).value(), payload);
      EXPECT_TRUE((*store)->ReadDigests("default", keys[0], 1).ok());
    }
    next_seed += 2;  // past what the child may have put without telling
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
