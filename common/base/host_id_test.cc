// SPDX-License-Identifier: Apache-2.0
#include "common/base/host_id.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/kit/temp_dir.h"

namespace quire {
namespace {

TEST(HostIdTest, IsTheFilesContentWithoutItsLineEnd) {
  testing::TempDir dir;
  std::ofstream(dir / "boot_id") << "5f0c-42\n";
  EXPECT_EQ(ReadHostId(dir / "boot_id"), "5f0c-42");
}

TEST(HostIdTest, IsEmptyWhereThereIsNone) {
  testing::TempDir dir;
  EXPECT_EQ(ReadHostId(dir / "missing"), "");
}

TEST(HostIdTest, IsTheSameEachTimeOnThisHost) { EXPECT_EQ(ReadHostId(), ReadHostId()); }

}  // namespace
}  // namespace quire
