// SPDX-License-Identifier: Apache-2.0
#include "quire/bearer_token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/kit/temp_dir.h"

namespace quire {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kGood = "AZaz09-._~+/AZaz09-._~+/AZaz0123==";

TEST(BearerTokenTest, WhatMayStandInAHeaderIsTaken) {
  ASSERT_GE(kGood.size(), BearerToken::kMinChars);
  const auto token = BearerToken::Make(kGood);
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_EQ(token->secret(), kGood);
  EXPECT_FALSE(token->empty());
  EXPECT_TRUE(BearerToken::Make(std::string(BearerToken::kMaxChars, 'x')).ok());
  EXPECT_TRUE(BearerToken().empty());
}

TEST(BearerTokenTest, WhatIsNoTokenIsRefusedAndNotQuoted) {
  const std::string start = "sesame-sesame-sesame-sesame-open";
  for (const std::string& text :
       {std::string(), std::string("sesame"), start.substr(1), std::string(513, 's'), start + " ",
        start + "\n", start + "\r", start + std::string(1, '\0'), start + "\x7f",
        start + "\xc3\xa4", start + ",", start + "\""}) {
    const Status status = BearerToken::Make(text).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << text.size();
    EXPECT_THAT(std::string(Message(status)), HasSubstr("make one with"));
    EXPECT_THAT(std::string(Message(status)), Not(HasSubstr("sesame")));
  }
}

class BearerTokenFileTest : public ::testing::Test {
 protected:
  StatusOr<BearerToken> Read(const std::string& text, mode_t mode = 0600) {
    std::ofstream(path_, std::ios::binary) << text;
    EXPECT_EQ(chmod(path_.c_str(), mode), 0);
    return BearerToken::ReadFile(path_);
  }

  testing::TempDir dir_;
  const std::string path_ = dir_ / "token";
};

TEST_F(BearerTokenFileTest, TheEndOfTheLineIsNoPartOfIt) {
  for (const char* const end : {"", "\n", "\r\n"}) {
    const auto token = Read(kGood + end);
    ASSERT_TRUE(token.ok()) << token.status();
    EXPECT_EQ(token->secret(), kGood);
  }
  EXPECT_TRUE(Read(std::string(BearerToken::kMaxChars, 'x') + "\r\n").ok());
}

TEST_F(BearerTokenFileTest, AFileThatEverybodyMayReadIsRefused) {
  EXPECT_TRUE(Read(kGood, 0640).ok());
  const Status status = Read(kGood, 0644).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(Message(status)), HasSubstr("chmod 600 " + path_));
}

TEST_F(BearerTokenFileTest, WhatIsNoTokenIsRefusedNamingTheFileAndNotTheSecret) {
  for (const std::string& text : {std::string(), std::string("\n"), std::string("sesame"),
                                  kGood + "\n" + kGood, kGood + "\n\n", std::string(9999, 'x')}) {
    const Status status = Read(text).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << text.size();
    EXPECT_THAT(std::string(Message(status)), HasSubstr(path_));
    EXPECT_THAT(std::string(Message(status)), Not(HasSubstr(kGood)));
    EXPECT_THAT(std::string(Message(status)), Not(HasSubstr("sesame")));
  }
  EXPECT_EQ(BearerToken::ReadFile(dir_ / "none").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace quire
