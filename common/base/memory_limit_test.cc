// SPDX-License-Identifier: Apache-2.0
#include "common/base/memory_limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/kit/temp_dir.h"

namespace quire::testing {
namespace {

using ::testing::HasSubstr;

class MemoryLimitTest : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path whole = root_ / path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text << "\n";
  }
  MemoryLimit Read() { return ReadMemoryLimit(root_ / ""); }

  TempDir root_;
};

TEST_F(MemoryLimitTest, WithoutGroupsItIsTheMachines) {
  const MemoryLimit machine = Read();
  EXPECT_GT(machine.bytes, uint64_t{64} << 20);
  EXPECT_EQ(machine.whose, "the memory of this machine");
  Write("proc/self/cgroup", "0::/a/b");
  Write("sys/fs/cgroup/a/b/memory.max", "max");
  Write("sys/fs/cgroup/a/memory.max", "99999999999999999");
  Write("sys/fs/cgroup/memory.max", "nonsense");
  EXPECT_EQ(Read().bytes, machine.bytes);
}

TEST_F(MemoryLimitTest, TheSmallestLimitUpToTheRootHolds) {
  Write("proc/self/cgroup", "0::/a/b/c");
  Write("sys/fs/cgroup/a/b/c/memory.max", "max");
  Write("sys/fs/cgroup/a/b/memory.max", "1048576");
  Write("sys/fs/cgroup/a/memory.max", "2097152");
  EXPECT_EQ(Read().bytes, uint64_t{1} << 20);
  EXPECT_THAT(Read().whose, HasSubstr("a/b/memory.max"));
}

TEST_F(MemoryLimitTest, AContainersOwnGroupIsFoundAtTheRoot) {
  Write("proc/self/cgroup", "0::/docker/0123");
  Write("sys/fs/cgroup/memory.max", "4194304");
  EXPECT_EQ(Read().bytes, uint64_t{4} << 20);
}

TEST_F(MemoryLimitTest, GroupsOfVersionOneCountToo) {
  Write("proc/self/cgroup", "9:cpu:/x\n4:hugetlb,memory:/x\nbroken\n5:memory:relative");
  Write("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "8388608");
  EXPECT_EQ(Read().bytes, uint64_t{8} << 20);
}

}  // namespace
}  // namespace quire::testing
