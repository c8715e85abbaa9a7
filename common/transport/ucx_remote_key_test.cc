// SPDX-License-Identifier: Apache-2.0
#include "common/transport/ucx_remote_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "common/base/random.h"

namespace quire {
namespace {

using namespace std::string_view_literals;
using ::testing::HasSubstr;

/// What UCX 1.13.1 packed for memory of its own, with posix,cma,tcp,self: four domains, of which
/// the third says more.
constexpr std::string_view kPosixKey =
    "\x0f\0\0\0\0\0\0\0\0\0\0"
    "\x18\x0e\x22\0\xc0\x05\0\0\xc0\0\x80\xdb\xdd\xaf\x7f\0\0\0\0\x10\0\0\0\0\0\0"sv;

/// The key as it was packed.
std::string Pack(const UcxRemoteKey& key) {
  std::string packed = EncodeUcxRemoteKey(key);
  EXPECT_EQ(packed.substr(packed.size() - kUcxKeyPadding), std::string(kUcxKeyPadding, '\0'));
  packed.resize(packed.size() - kUcxKeyPadding);
  return packed;
}

TEST(UcxRemoteKeyTest, AKeyOfUcxIsTakenApartAndPutTogether) {
  const auto key = DecodeUcxRemoteKey(kPosixKey);
  ASSERT_TRUE(key.ok()) << key.status();
  EXPECT_EQ(key->memory_type, 0);
  ASSERT_EQ(key->parts.size(), 4u);
  for (uint32_t domain = 0; domain < 4; ++domain) {
    EXPECT_EQ(key->parts[domain].domain, domain);
    EXPECT_EQ(key->parts[domain].bytes.size(), domain == 2 ? 24u : 0u);
  }
  EXPECT_EQ(key->parts[2].bytes, kPosixKey.substr(12, 24));
  EXPECT_EQ(Pack(*key), kPosixKey);
}

TEST(UcxRemoteKeyTest, WhatIsLeftOutIsNotInTheMapEither) {
  UcxRemoteKey key = DecodeUcxRemoteKey(kPosixKey).value();
  key.parts.erase(key.parts.begin() + 2);
  EXPECT_EQ(Pack(key), "\x0b\0\0\0\0\0\0\0\0\0\0\0"sv);
  key.parts.clear();
  EXPECT_EQ(Pack(key), std::string(9, '\0'));
}

TEST(UcxRemoteKeyTest, AKeyThatIsCutShortAnywhereIsRefused) {
  for (size_t size = 0; size < kPosixKey.size(); ++size) {
    const Status refused = DecodeUcxRemoteKey(kPosixKey.substr(0, size)).status();
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument) << size << ": " << refused;
  }
}

TEST(UcxRemoteKeyTest, NothingMayFollow) {
  for (const size_t more : {1, 9, 256}) {
    const Status refused =
        DecodeUcxRemoteKey(std::string(kPosixKey) + std::string(more, '\0')).status();
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("behind the parts"));
  }
}

TEST(UcxRemoteKeyTest, AllDomainsWithAllTheyCanSay) {
  UcxRemoteKey key{.memory_type = 255, .parts = {}};
  for (uint32_t domain = 0; domain < 64; ++domain) {
    key.parts.push_back({domain, std::string(255, '\xff')});
  }
  const std::string packed = Pack(key);
  EXPECT_EQ(packed.size(), 9u + 64 * 256);
  const auto again = DecodeUcxRemoteKey(packed);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, key);
  EXPECT_FALSE(DecodeUcxRemoteKey(std::string_view(packed).substr(0, packed.size() - 1)).ok());
  EXPECT_FALSE(DecodeUcxRemoteKey(std::string(9, '\xff')).ok()) << "domains, and no parts";
}

TEST(UcxRemoteKeyTest, WhatIsAcceptedIsTheSameWhenItIsPackedAgain) {
  SeededRandom random(20);
  size_t accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string packed(kPosixKey);
    for (uint64_t i = 0; i <= random.Next() % 3; ++i) {
      packed[random.Next() % packed.size()] = static_cast<char>(random.Next());
    }
    packed.resize(packed.size() - random.Next() % 2);
    const auto key = DecodeUcxRemoteKey(packed);
    if (!key.ok()) continue;
    ++accepted;
    ASSERT_EQ(Pack(*key), packed) << round;
  }
  EXPECT_GT(accepted, 0u);
}

TEST(UcxRemoteKeyTest, DomainsThatAreNotKnownAreNotTrusted) {
  EXPECT_EQ(UcxDomainKindOf("posix"), UcxDomainKind::kPosix);
  EXPECT_EQ(UcxDomainKindOf("sysv"), UcxDomainKind::kSysv);
  for (const char* const plain : {"cma", "ib", "knem", "self", "tcp"}) {
    EXPECT_EQ(UcxDomainKindOf(plain), UcxDomainKind::kPlain) << plain;
  }
  for (const char* const other : {"", "xpmem", "cuda_ipc", "tcp2", "IB"}) {
    EXPECT_EQ(UcxDomainKindOf(other), UcxDomainKind::kUnknown) << other;
  }
}

}  // namespace
}  // namespace quire
