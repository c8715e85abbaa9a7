// SPDX-License-Identifier: Apache-2.0
#include "bench/torture/cluster/node_disk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/kit/temp_dir.h"

namespace quire::torture {
namespace {

constexpr size_t kBlock = 4096;

class NodeDiskTest : public ::testing::Test {
 protected:
  NodeDiskTest()
      : disk_(NodeDisk::Make(dir_ / "disk", NodeDisk::Kind::kDirectory).value()),
        volume_(disk_->data_dir() + "/payload/00000000.vol") {
    std::filesystem::create_directories(disk_->data_dir() + "/payload");
  }
  void Write(const std::string& bytes) { std::ofstream(volume_, std::ios::binary) << bytes; }
  std::string Read() {
    std::ifstream in(volume_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  const testing::TempDir dir_;
  const std::unique_ptr<NodeDisk> disk_;
  const std::string volume_;
  SeededRandom random_{7};
};

TEST_F(NodeDiskTest, BitsFlipInPayloadAndNowhereElse) {
  // A header, a block that is free, and two of payload.
  const std::string before = std::string(kBlock, 'h') + std::string(kBlock, '\0') +
                             std::string(kBlock, 'p') + std::string(kBlock, 'q');
  Write(before);
  EXPECT_EQ(disk_->FlipBits(/*most=*/9, random_).value(), 2u);
  const std::string after = Read();
  ASSERT_EQ(after.size(), before.size());
  int flipped[4] = {};
  for (size_t i = 0; i < before.size(); ++i) {
    flipped[i / kBlock] += std::popcount(static_cast<unsigned char>(before[i] ^ after[i]));
  }
  EXPECT_THAT(flipped, ::testing::ElementsAre(0, 0, 1, 1));
}

TEST_F(NodeDiskTest, OnlySoManyBitsFlip) {
  Write(std::string(9 * kBlock, 'x'));
  EXPECT_EQ(disk_->FlipBits(/*most=*/3, random_).value(), 3u);
}

TEST_F(NodeDiskTest, ALostDiskIsGone) {
  Write("x");
  ASSERT_TRUE(disk_->Lose().ok());
  EXPECT_FALSE(std::filesystem::exists(dir_ / "disk"));
  EXPECT_EQ(disk_->FlipBits(1, random_).status().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace quire::torture
