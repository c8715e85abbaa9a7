// SPDX-License-Identifier: Apache-2.0
#include "common/base/small_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <thread>

#include "tests/kit/temp_dir.h"

namespace quire {
namespace {

using ::testing::HasSubstr;

constexpr size_t kMaxBytes = 10000;

class SmallFileTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& text) {
    std::ofstream(path_, std::ios::binary) << text;
    return path_;
  }
  void ExpectRefused(const std::string& path, StatusCode code) {
    const Status status = ReadSmallFile(path, kMaxBytes).status();
    EXPECT_EQ(status.code(), code);
    EXPECT_THAT(std::string(Message(status)), HasSubstr(path));
  }

  testing::TempDir dir_;
  const std::string path_ = dir_ / "file";
};

TEST_F(SmallFileTest, IsReadWholeWhateverItsBytesAre) {
  const std::string text = std::string("a\0\xff\r\n", 5) + std::string(kMaxBytes - 5, 'x');
  const auto file = ReadSmallFile(Write(text), kMaxBytes);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->text, text);
  EXPECT_EQ(ReadSmallFile(Write(""), kMaxBytes)->text, "");
}

TEST_F(SmallFileTest, WhoMayReadItIsTold) {
  Write("text");
  for (const auto& [mode, everybody] :
       {std::pair{0600, false}, {0440, false}, {0644, true}, {0604, true}}) {
    ASSERT_EQ(chmod(path_.c_str(), static_cast<mode_t>(mode)), 0);
    EXPECT_EQ(ReadSmallFile(path_, kMaxBytes)->read_by_everybody, everybody) << mode;
  }
}

TEST_F(SmallFileTest, APipeIsReadToItsEnd) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0644), 0);
  std::thread writer([this] { Write("from a program"); });
  const auto file = ReadSmallFile(path_, kMaxBytes);
  writer.join();
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->text, "from a program");
  EXPECT_FALSE(file->read_by_everybody);
}

TEST_F(SmallFileTest, WhatIsNoSmallFileIsNamed) {
  ExpectRefused(dir_ / "none", StatusCode::kNotFound);
  ExpectRefused(dir_.path(), StatusCode::kInvalidArgument);
  ExpectRefused(Write(std::string(kMaxBytes + 1, 'x')), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace quire
