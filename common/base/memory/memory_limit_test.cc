// SPDX-License-Identifier: Apache-2.0
#include "common/base/memory/memory_limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/kit/temp_dir.h"

namespace quire::testing {
namespace {

using ::testing::AllOf;
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

// The smaller of the machine's memory and the group's, in the files of either version.
TEST_F(MemoryLimitTest, AnOptionIsRefusedBeyondTheGroupsLimitAlthoughTheMachineHasIt) {
  const MemoryLimit machine = Read();
  const uint64_t asked = uint64_t{16} << 20;
  ASSERT_LT(asked, machine.bytes);
  EXPECT_EQ(CheckWithin(machine, "--some-bytes", asked), OkStatus());
  Write("proc/self/cgroup", "0::/v2\n3:memory:/v1");
  Write("sys/fs/cgroup/v2/memory.max", std::to_string(asked));
  EXPECT_EQ(CheckWithin(Read(), "--some-bytes", asked), OkStatus());
  EXPECT_THAT(std::string(CheckWithin(Read(), "--some-bytes", asked + 1).message()),
              AllOf(HasSubstr("--some-bytes is 16777217, more than the limit in "),
                    HasSubstr("v2/memory.max, 16777216")));
  Write("sys/fs/cgroup/memory/v1/memory.limit_in_bytes", std::to_string(asked - 1));
  EXPECT_THAT(std::string(CheckWithin(Read(), "--some-bytes", asked).message()),
              HasSubstr("v1/memory.limit_in_bytes, 16777215"));
  // Version 1's number for no limit.
  Write("sys/fs/cgroup/memory/v1/memory.limit_in_bytes", "9223372036854771712");
  Write("sys/fs/cgroup/v2/memory.max", "9223372036854771712");
  EXPECT_THAT(std::string(CheckWithin(Read(), "--some-bytes", machine.bytes + 1).message()),
              HasSubstr("more than the memory of this machine"));
}

}  // namespace
}  // namespace quire::testing
