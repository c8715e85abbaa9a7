// SPDX-License-Identifier: Apache-2.0
#include "kvserver/session/context_table.h"

#include <gmock/gmock.h>

#include "kvserver/session/testing/session_fixture.h"

namespace quire::kvserver::testing {
namespace {

using ::testing::HasSubstr;

class ContextTableTest : public SessionFixture {};

TEST_F(ContextTableTest, AContextBelongsToItsTenant) {
  const auto opened = OpenWith(1);
  EXPECT_TRUE(contexts_.Find(kTenant, opened.id).ok());
  EXPECT_EQ(contexts_.Find("team-b", opened.id).status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(contexts_.Drop("team-b", opened.id));
  EXPECT_TRUE(contexts_.Drop(kTenant, opened.id));
  EXPECT_FALSE(contexts_.Drop(kTenant, opened.id));
}

TEST_F(ContextTableTest, BoundsTheNumberOfOpenContextsButNotOfSealedOnes) {
  for (int i = 0; i < 20; ++i) {
    const auto opened = OpenWith(1);
    ASSERT_TRUE(Seal(*opened.context, 1, 0).ok());
    contexts_.Retire(kTenant, opened.id);
    EXPECT_TRUE(contexts_.Find(kTenant, opened.id).ok());
  }
  for (int i = 0; i < 4; ++i) OpenWith(0);
  EXPECT_EQ(contexts_.Open(kTenant, spec_, nullptr).status().code(),
            StatusCode::kResourceExhausted);
}

TEST_F(ContextTableTest, SealedContextsAreKnownToTheirTenantWhateverOthersSeal) {
  const auto seal = [&](std::string_view tenant) {
    const auto opened = contexts_.Open(tenant, spec_, nullptr);
    EXPECT_TRUE(opened.ok()) << opened.status();
    EXPECT_TRUE(Append(*opened->context, 0, 1).ok());
    EXPECT_TRUE(Seal(*opened->context, 1, 0).ok());
    contexts_.Retire(tenant, opened->id);
    return opened->id;
  };
  const uint64_t mine = seal(kTenant);
  std::vector<uint64_t> theirs;
  for (int i = 0; i < 300; ++i) theirs.push_back(seal("team-b"));
  EXPECT_TRUE(contexts_.Find(kTenant, mine).ok());
  EXPECT_FALSE(contexts_.Find("team-b", mine).ok());
  // As many as the tenant may have open, the last ones.
  for (size_t i = 0; i < theirs.size(); ++i) {
    EXPECT_EQ(contexts_.Find("team-b", theirs[i]).ok(), i + 4 >= theirs.size()) << i;
  }
  EXPECT_FALSE(contexts_.Drop("team-b", mine));
  EXPECT_TRUE(contexts_.Drop(kTenant, mine));
  EXPECT_FALSE(contexts_.Find(kTenant, mine).ok());
}

TEST_F(ContextTableTest, BoundsTheBytesThatOneTenantsTailsHold) {
  SealedWith(4);  // Makes the context below diverge, so that its tail grows.
  const auto opened = OpenWith(0);
  Status status;
  uint32_t page = 0;
  for (; status.ok() && page < 2000; ++page) {
    status = Append(*opened.context, page, 1, /*seed=*/2).status();
  }
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(Message(status)), HasSubstr("--context-bytes"));
  EXPECT_LT(page, 2000u);
  contexts_.Drop(kTenant, opened.id);
}

TEST_F(ContextTableTest, RefusesToContinueUnderAnotherSpecNamingTheField) {
  const ContextViewPtr chain = SealedWith(1);
  KvSpec other = spec_;
  other.rope.theta = 5e5;
  const auto opened = contexts_.Open(kTenant, other, chain);
  EXPECT_EQ(opened.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(opened.status())), HasSubstr("rope.theta"));
}

}  // namespace
}  // namespace quire::kvserver::testing
