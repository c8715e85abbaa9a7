// SPDX-License-Identifier: Apache-2.0
#include "transport/auth/tenant_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "quire/bearer_token.h"
#include "tests/kit/temp_dir.h"

namespace quire {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Tokens with their hashes from `sha256sum`.
const std::string kTokenA = "a-token-of-team-a-that-is-long-enough";
const std::string kHashA = "c42968d41be29ed7caeb9928ccd090f522347113ac81f5b5ccd209da772583ba";
const std::string kNewTokenA = "the-next-token-of-team-a-is-long-too";
const std::string kNewHashA = "c8942774282fd8451621641e31edf555a7704f0c7839e56a9da92f4c147fd2fc";
const std::string kTokenB = "a-token-of-team-b-that-is-long-enough";
const std::string kHashB = "c86a7b2fce97e0ef11c422284faa38dd0f0cef7d1fe176820ed4a41f7435f161";
const std::string kShortToken = "too-short";
const std::string kHashOfShort = "7750e5644cf856467b1acb0e59b3dbe5a2991e69bc1b9846abd4f991c800cf8e";
const std::string kHashOfNothing =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const std::vector<std::string> kKnownTenants = {"team-a", "team-b"};

TenantTokens Tokens(const std::string& text) {
  auto tokens = TenantTokens::Parse(text, kKnownTenants);
  EXPECT_TRUE(tokens.ok()) << tokens.status();
  return *std::move(tokens);
}
bool Proves(const TenantTokens& tokens, const std::string& tenant, const std::string& token) {
  return tokens.Check(tenant, "Bearer " + token).ok();
}

TEST(TenantTokensTest, ATokenProvesItsTenantAndNoOther) {
  const TenantTokens tokens = Tokens("team-a " + kHashA + "\nteam-b " + kHashB + "\n");
  EXPECT_TRUE(Proves(tokens, "team-a", kTokenA));
  EXPECT_TRUE(Proves(tokens, "team-b", kTokenB));
  EXPECT_FALSE(Proves(tokens, "team-a", kTokenB));
  EXPECT_FALSE(Proves(tokens, "team-b", kTokenA));
  EXPECT_FALSE(Proves(tokens, "team-c", kTokenA));
  EXPECT_FALSE(Proves(tokens, "", kTokenA));
  EXPECT_TRUE(tokens.Has("team-a"));
  EXPECT_FALSE(tokens.Has("team-c"));
}

TEST(TenantTokensTest, TheTokenOfNodesProvesEveryTenantOfTheServer) {
  TenantTokens tokens = Tokens("team-a " + kHashA);
  tokens.AddForNodes(kKnownTenants, BearerToken::Make(kTokenB).value());
  EXPECT_TRUE(Proves(tokens, "team-a", kTokenA));
  EXPECT_TRUE(Proves(tokens, "team-a", kTokenB));
  EXPECT_TRUE(Proves(tokens, "team-b", kTokenB));
  EXPECT_FALSE(Proves(tokens, "team-c", kTokenB));
  EXPECT_FALSE(tokens.Has("team-b")) << "no client can act for it";
  EXPECT_TRUE(tokens.ProvesNode("Bearer " + kTokenB));
  EXPECT_FALSE(tokens.ProvesNode("Bearer " + kTokenA)) << "a tenant is no node";
  EXPECT_FALSE(tokens.ProvesNode(""));
}

TEST(TenantTokensTest, WhileATokenIsReplacedBothProveTheTenant) {
  const TenantTokens both = Tokens("team-a " + kHashA + " " + kNewHashA);
  EXPECT_TRUE(Proves(both, "team-a", kTokenA));
  EXPECT_TRUE(Proves(both, "team-a", kNewTokenA));
  const TenantTokens after = Tokens("team-a " + kNewHashA);
  EXPECT_FALSE(Proves(after, "team-a", kTokenA));
  EXPECT_TRUE(Proves(after, "team-a", kNewTokenA));
}

TEST(TenantTokensTest, EveryRefusalIsTheSameWhateverIsWrong) {
  const TenantTokens tokens = Tokens("team-a " + kHashA + "\nteam-b " + kHashB);
  const Status refused = tokens.Check("team-a", "");
  EXPECT_EQ(refused.code(), StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(Message(refused)), HasSubstr("--token-file"));
  std::string other_first = kTokenA, other_last = kTokenA;
  other_first.front() ^= 1;
  other_last.back() ^= 1;
  for (const std::string& shown :
       {other_first, other_last, kTokenA.substr(1), kTokenA + "x", kTokenA + " ", " " + kTokenA,
        kTokenB, kHashA, kShortToken, std::string(), std::string(100000, 'x')}) {
    EXPECT_EQ(tokens.Check("team-a", "Bearer " + shown), refused) << shown.substr(0, 100);
  }
  for (const std::string& authorization : {kTokenA, "Basic " + kTokenA, "bearer " + kTokenA,
                                           "Bearer" + kTokenA, std::string("Bearer ")}) {
    EXPECT_EQ(tokens.Check("team-a", authorization), refused) << authorization;
  }
  EXPECT_EQ(tokens.Check("nobody", "Bearer " + kTokenA), refused) << "no such tenant";
  EXPECT_EQ(tokens.Check("a b\n", "Bearer " + kTokenA), refused) << "no tenant's name";
}

TEST(TenantTokensTest, AShortTokenProvesNothingEvenWhereItsHashStands) {
  ASSERT_LT(kShortToken.size(), BearerToken::kMinChars);
  EXPECT_FALSE(Proves(Tokens("team-a " + kHashOfShort), "team-a", kShortToken));
}

TEST(TenantTokensTest, CommentsBlanksAndLineEndsAreTakenAsTheyCome) {
  std::string upper = kHashB;
  for (char& c : upper) c = static_cast<char>(toupper(c));
  const TenantTokens tokens =
      Tokens("# who may call\r\n\r\n\t \n  # indented, and \xff\x01 whatever\n \tteam-a\t  " +
             kHashA + " \t\r\nteam-b " + upper);
  EXPECT_TRUE(Proves(tokens, "team-a", kTokenA));
  EXPECT_TRUE(Proves(tokens, "team-b", kTokenB));
}

TEST(TenantTokensTest, ABadLineIsNamedAndNotQuoted) {
  const auto expect = [](const std::string& line, const std::string& words) {
    const std::string text = "# first\nteam-b " + kHashB + "\n" + line + "\nteam-a " + kHashA;
    const Status status = TenantTokens::Parse(text, kKnownTenants).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << words;
    EXPECT_THAT(std::string(Message(status)), HasSubstr("line 3: "));
    EXPECT_THAT(std::string(Message(status)), HasSubstr(words));
    EXPECT_THAT(std::string(Message(status)), Not(HasSubstr(kTokenA)));
  };
  expect("team-a", "no SHA-256 of a token after the name");
  expect("team-a \r", "no SHA-256 of a token after the name");
  expect("team-a " + kTokenA, "no SHA-256, 64 hexadecimal digits");
  expect(kTokenA, "there is no such tenant");
  expect("team-a " + kHashA + "  -", "no SHA-256, 64 hexadecimal digits");
  expect("team-a " + kHashA + "#", "no SHA-256, 64 hexadecimal digits");
  expect("team-a " + kHashA.substr(2), "no SHA-256, 64 hexadecimal digits");
  expect("team-a -1" + kHashA.substr(2), "no SHA-256, 64 hexadecimal digits");
  expect("team-a 0x" + kHashA.substr(2), "no SHA-256, 64 hexadecimal digits");
  expect("team-a " + kHashA.substr(1) + "g", "no SHA-256, 64 hexadecimal digits");
  expect("team-a " + kHashA.substr(1) + std::string(1, '\0'), "no SHA-256");
  expect("team-a " + kHashA + " " + kHashOfNothing, "that of an empty file");
  expect("team-b " + kHashA, "has a line already");
  expect("team-c " + kHashA, "there is no such tenant");
  expect("team/a " + kHashA, "does not begin with the name of a tenant");
  expect(std::string("team-a\0 ", 8) + kHashA, "does not begin with the name of a tenant");
  expect("\xff\xfe\x01", "does not begin with the name of a tenant");
  expect("\v" + kHashA, "does not begin with the name of a tenant");
  expect("#" + std::string(TenantTokens::kMaxLineBytes, 'x'), "it has 4097 bytes, more than 4096");
}

TEST(TenantTokensTest, AFileWithoutATenantIsRefused) {
  for (const std::string& text : {std::string(), std::string("\n\n# nobody yet\n")}) {
    const Status status = TenantTokens::Parse(text, kKnownTenants).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(Message(status)), HasSubstr("every call would be refused"));
  }
}

TEST(TenantTokensTest, WhereNoTenantsAreKnownAnyNameIsTaken) {
  const auto tokens = TenantTokens::Parse("elsewhere " + kHashA, {});
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_TRUE(Proves(*tokens, "elsewhere", kTokenA));
  EXPECT_FALSE(TenantTokens::Parse("else/where " + kHashA, {}).ok());
}

TEST(TenantTokensTest, ErrorsOfAFileNameItAndTheLine) {
  const testing::TempDir dir;
  std::ofstream(dir / "tokens") << "team-a " << kHashA << "\n";
  EXPECT_TRUE(TenantTokens::ReadFile(dir / "tokens", kKnownTenants).ok());
  std::ofstream(dir / "tokens", std::ios::app) << "team-b " << kTokenB << "\n";
  const Status status = TenantTokens::ReadFile(dir / "tokens", kKnownTenants).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(status)), HasSubstr(dir / "tokens: line 2: "));
  EXPECT_EQ(TenantTokens::ReadFile(dir / "none", kKnownTenants).status().code(),
            StatusCode::kNotFound);
  std::ofstream(dir / "huge") << std::string(TenantTokens::kMaxFileBytes + 1, '\n');
  EXPECT_EQ(TenantTokens::ReadFile(dir / "huge", kKnownTenants).status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace quire
