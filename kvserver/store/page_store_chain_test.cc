// SPDX-License-Identifier: Apache-2.0
//
// Promises of PageStore for chains of segments, and between tenants.
#include "kvserver/store/testing/page_store_fixture.h"

namespace quire::kvserver::testing {
namespace {

TEST_F(PageStoreTest, AChainContinuesOnlyAStoredFullSegmentOfTheSameSpec) {
  const auto full = PutTestSegment(*store_, spec_, 1);
  const auto tail = PutTestSegment(*store_, spec_, 2, full->key, 5);
  ASSERT_TRUE(tail.ok()) << tail.status();
  EXPECT_EQ(PutTestSegment(*store_, spec_, 3, tail->key).status().code(),
            StatusCode::kInvalidArgument);
  SegmentKey unknown;
  unknown.bytes[0] = 1;
  EXPECT_EQ(PutTestSegment(*store_, spec_, 3, unknown).status().code(), StatusCode::kNotFound);
  const Status other_spec = PutTestSegment(*store_, SmallSpec("another"), 3, full->key).status();
  EXPECT_EQ(other_spec.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(Message(other_spec).find("another"), std::string_view::npos) << other_spec;
}

TEST_F(PageStoreTest, ResolvesAChainFromItsTip) {
  const auto chain = PutTestChain(*store_, spec_, 1, 3);
  ASSERT_TRUE(chain.ok());
  const auto tail = PutTestSegment(*store_, spec_, 9, chain->back().key, 5);
  for (int round = 0; round < 2; ++round) {  // first walked, then cached
    const auto resolved = store_->ResolveChain("default", tail->key);
    ASSERT_TRUE(resolved.ok()) << resolved.status();
    EXPECT_EQ((*resolved)->spec, spec_);
    EXPECT_EQ((*resolved)->num_tokens, 3 * 8 + 5u);
    ASSERT_EQ((*resolved)->keys.size(), 4u);
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ((*resolved)->keys[i], (*chain)[i].key);
    EXPECT_EQ((*resolved)->keys[3], tail->key);
  }
}

TEST_F(PageStoreTest, AChainWithAMissingSegmentIsNotFound) {
  const auto chain = PutTestChain(*store_, spec_, 1, 3);
  const SegmentKey tip = chain->back().key;
  ASSERT_TRUE(store_->ResolveChain("default", tip).ok());
  ASSERT_TRUE(store_->DeleteSegment("default", (*chain)[1].key).ok());
  EXPECT_EQ(store_->ResolveChain("default", tip).status().code(), StatusCode::kNotFound);
  ASSERT_TRUE(PutTestSegment(*store_, spec_, 2, (*chain)[0].key).ok());
  EXPECT_TRUE(store_->ResolveChain("default", tip).ok()) << "put again, it is whole again";
}

TEST_F(PageStoreTest, LookupFindsTheLongestStoredPrefix) {
  const auto chain = PutTestChain(*store_, spec_, 1, 3);
  const auto tail = PutTestSegment(*store_, spec_, 9, chain->back().key, 5);
  std::vector<TokenId> tokens;
  for (const TestSegment& segment : *chain) {
    tokens.insert(tokens.end(), segment.tokens.begin(), segment.tokens.end());
  }
  const auto found = [&](const std::vector<TokenId>& t) {
    return store_->Lookup("default", spec_, t).value().size();
  };
  EXPECT_EQ(found({}), 0u);
  EXPECT_EQ(found(tokens), 3u);
  EXPECT_EQ(found({tokens.begin(), tokens.begin() + 20}), 2u) << "20 tokens: two whole segments";
  auto with_tail = tokens;
  with_tail.insert(with_tail.end(), tail->tokens.begin(), tail->tokens.end());
  EXPECT_EQ(found(with_tail), 4u) << "the short last segment ends where the tokens end";
  with_tail.push_back(1);
  EXPECT_EQ(found(with_tail), 3u);
  tokens[0] ^= 1;
  EXPECT_EQ(found(tokens), 0u);
  EXPECT_EQ(store_->Lookup("default", SmallSpec("another"), with_tail)->size(), 0u);
}

// Promise 7: tenants never share segments, timing-visible hits or names.
TEST_F(PageStoreTest, Promise7TenantsCannotNameOrSeeEachOthersSegments) {
  const auto mine = PutTestSegment(*store_, spec_, 1);
  const auto theirs = PutTestSegment(*store_, spec_, 1, kRootKey, 0, Durability::kMemory, "other");
  ASSERT_TRUE(theirs.ok());
  EXPECT_NE(mine->key, theirs->key) << "the same tokens, other keys";
  EXPECT_EQ(Count("segments"), 2u);
  ASSERT_TRUE(store_->DeleteSegment("other", theirs->key).ok());
  EXPECT_EQ(store_->Lookup("other", spec_, mine->tokens)->size(), 0u);
  std::vector<UnitBytes> units;
  const std::vector<UnitAddress> addresses = {{mine->key, 0, 0}};
  EXPECT_EQ(store_->ReadUnits("other", addresses, &units).code(), StatusCode::kNotFound);
  EXPECT_EQ(store_->ReadDigests("other", mine->key, 0).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store_->Tokens("other", mine->key).status().code(), StatusCode::kNotFound);
  ASSERT_TRUE(store_->ResolveChain("default", mine->key).ok());
  EXPECT_EQ(store_->ResolveChain("other", mine->key).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(
      PutTestSegment(*store_, spec_, 2, mine->key, 0, Durability::kMemory, "other").status().code(),
      StatusCode::kNotFound)
      << "nor continue them";
  EXPECT_EQ(store_->DeleteSegment("other", mine->key).code(), StatusCode::kNotFound);
  EXPECT_TRUE(ReadSegment(*store_, spec_, *mine).ok());
}

TEST_F(PageStoreTest, APrivateSegmentIsFoundByItsKeyOnlyAndGoneAtTheNextOpen) {
  const auto shared = PutTestSegment(*store_, spec_, 1);
  const std::vector<TokenId> tokens = MakeTokens(spec_.segment_tokens(), 2);
  const std::vector<std::byte> payload = MakePayload(spec_, tokens.size(), 2);
  TenantSalt salt{};
  salt[0] = 1;
  PutSegmentArgs args;
  args.spec = &spec_;
  args.parent = shared->key;
  args.tokens = tokens;
  args.payload = payload;
  args.private_salt = &salt;
  SegmentHold hold;
  args.hold = &hold;
  args.durability = Durability::kPersisted;
  const auto own = store_->PutSegment("default", args);
  ASSERT_TRUE(own.ok()) << own.status();
  const uint64_t stored = Count("segments");

  std::vector<UnitBytes> units;
  const auto all = AllUnits(spec_, own->key, tokens.size());
  ASSERT_TRUE(store_->ReadUnits("default", all, &units).ok());
  EXPECT_EQ(Concatenate(units), payload);
  std::vector<TokenId> chain = shared->tokens;
  chain.insert(chain.end(), tokens.begin(), tokens.end());
  EXPECT_EQ(store_->Lookup("default", spec_, chain).value().size(), 1u);
  EXPECT_EQ(store_->ResolveChain("default", own->key).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(PutTestSegment(*store_, spec_, 3, own->key).status().code(), StatusCode::kNotFound);
  // Exact pages of the same tokens with other bytes are another segment.
  EXPECT_TRUE(Put(tokens, MakePayload(spec_, tokens.size(), 4), shared->key).ok());

  hold.Detach();  // Like a killed server.
  Open();
  EXPECT_EQ(Count("segments"),
            stored);  // The private one was deleted, and that of exact pages added.
  EXPECT_EQ(store_->ReadUnits("default", all, &units).code(), StatusCode::kNotFound);
  EXPECT_EQ(store_->Lookup("default", spec_, chain).value().size(), 2u);
}

TEST_F(PageStoreTest, AnUnknownTenantIsNamedInTheError) {
  const Status status =
      PutTestSegment(*store_, spec_, 1, kRootKey, 0, Durability::kMemory, "nobody").status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_NE(Message(status).find("nobody"), std::string_view::npos);
  EXPECT_EQ(store_->CheckTenant("nobody").code(), StatusCode::kNotFound);
  EXPECT_TRUE(store_->CheckTenant("other").ok());
}

TEST_F(PageStoreTest, StatCountsBytesAndTiers) {
  const auto chain = PutTestChain(*store_, spec_, 1, 3);
  const auto resolved = store_->ResolveChain("default", chain->back().key);
  const auto stat = store_->StatChain("default", **resolved);
  ASSERT_TRUE(stat.ok());
  EXPECT_EQ(stat->bytes, 3 * SegmentBytes(spec_, 2));
  EXPECT_EQ(stat->segments_in_dram, 3u);
  EXPECT_EQ(stat->segments_on_ssd, 3u);
  Open();
  EXPECT_EQ(store_->StatChain("default", **resolved)->segments_in_dram, 0u);
}

}  // namespace
}  // namespace quire::kvserver::testing
