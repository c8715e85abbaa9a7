// SPDX-License-Identifier: Apache-2.0
#include "common/wire/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "common/wire/convert_context.h"
#include "common/wire/limits.h"

namespace quire::wire {
namespace {

using ::testing::HasSubstr;

KvSpec SmallSpec() {
  KvSpec spec;
  spec.model = "small";
  spec.weights_hash.fill(7);
  spec.num_layers = 4;
  spec.num_query_heads = 8;
  spec.num_kv_heads = 2;
  spec.head_dim = 16;
  spec.rope = {.scaling = RopeScaling::kYarn,
               .interleaved = true,
               .rotary_dim = 16,
               .theta = 1e6,
               .factor = 4,
               .low_freq_factor = 1,
               .high_freq_factor = 2,
               .original_context = 4096,
               .beta_fast = 32,
               .beta_slow = 1,
               .attention_factor = 1.1};
  return spec;
}

KvSpec LongRopeSpec() {
  KvSpec spec = SmallSpec();
  spec.rope.scaling = RopeScaling::kLongRope;
  spec.rope.pair_factors = {1, 1.5, 2, 2.5, 3, 4, 8, 64};
  return spec;
}

v1::KvSpec SmallProto() {
  v1::KvSpec proto;
  KvSpecToProto(SmallSpec(), &proto);
  return proto;
}

template <typename T>
std::string ErrorOf(const StatusOr<T>& result) {
  EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument) << result.status();
  return std::string(Message(result.status()));
}

TEST(ConvertTest, ATimeToLiveOfZeroIsNoneAndTheRestHasALimit) {
  EXPECT_EQ(*TtlFromProto(0), std::nullopt);
  EXPECT_EQ(*TtlFromProto(1), 1u);
  EXPECT_EQ(*TtlFromProto(kMaxTtlSeconds), kMaxTtlSeconds);
  for (const uint64_t bad : {kMaxTtlSeconds + 1, UINT64_MAX}) {
    EXPECT_EQ(TtlFromProto(bad).status().code(), StatusCode::kInvalidArgument);
  }
}

TEST(KvSpecConvertTest, EveryFieldSurvivesTheRoundTrip) {
  for (const KvSpec& spec : {SmallSpec(), LongRopeSpec()}) {
    v1::KvSpec proto;
    KvSpecToProto(spec, &proto);
    const auto back = KvSpecFromProto(proto);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(FirstDifference(spec, *back), "");
    EXPECT_EQ(*back, spec);
  }
}

TEST(KvSpecConvertTest, RefusesAnUnsetOrUnknownEnumNamingTheField) {
  v1::KvSpec proto = SmallProto();
  proto.set_dtype(v1::DTYPE_UNSPECIFIED);
  EXPECT_THAT(ErrorOf(KvSpecFromProto(proto)), HasSubstr("spec.dtype is 0"));
  proto = SmallProto();
  proto.set_attention(static_cast<v1::AttentionKind>(99));
  EXPECT_THAT(ErrorOf(KvSpecFromProto(proto)), HasSubstr("spec.attention is 99"));
  proto = SmallProto();
  proto.mutable_rope()->set_state(static_cast<v1::RopeState>(-1));
  EXPECT_THAT(ErrorOf(KvSpecFromProto(proto)), HasSubstr("rope.state is -1"));
}

TEST(KvSpecConvertTest, RefusesImpossibleShapes) {
  v1::KvSpec proto = SmallProto();
  proto.set_num_layers(std::numeric_limits<uint32_t>::max());
  EXPECT_THAT(ErrorOf(KvSpecFromProto(proto)), HasSubstr("num_layers"));
  proto = SmallProto();
  proto.set_weights_hash("short");
  EXPECT_THAT(ErrorOf(KvSpecFromProto(proto)), HasSubstr("weights_hash has 5 bytes"));
  proto = SmallProto();
  proto.mutable_rope()->set_theta(std::numeric_limits<double>::quiet_NaN());
  EXPECT_FALSE(KvSpecFromProto(proto).ok());
  EXPECT_FALSE(KvSpecFromProto(v1::KvSpec()).ok());
}

TEST(KeyConvertTest, TakesExactly32Bytes) {
  const std::string raw(32, 'k');
  EXPECT_EQ(KeyToBytes(*KeyFromBytes(raw, "key")), raw);
  EXPECT_THAT(ErrorOf(KeyFromBytes("", "parent")), HasSubstr("parent has 0 bytes"));
  EXPECT_FALSE(KeyFromBytes(std::string(33, 'k'), "key").ok());
  EXPECT_EQ(*KeyOrRootFromBytes("", "parent"), kRootKey);
  EXPECT_EQ(*OptionalKeyFromBytes("", "key"), std::nullopt);
  EXPECT_FALSE(OptionalKeyFromBytes("x", "key").ok());
}

TEST(KeyConvertTest, BoundsTheNumberOfKeys) {
  google::protobuf::RepeatedPtrField<std::string> keys;
  for (int i = 0; i < 3; ++i) *keys.Add() = std::string(32, static_cast<char>(i));
  EXPECT_EQ(KeysFromProto(keys, 3, "keys")->size(), 3u);
  EXPECT_THAT(ErrorOf(KeysFromProto(keys, 2, "keys")), HasSubstr("keys has 3 keys: at most 2"));
}

TEST(NameConvertTest, TenantsAreShortAndPlain) {
  EXPECT_TRUE(CheckTenantName("team-a_1.x").ok());
  for (const char* bad : {"", "a b", "a/b", "t\xc3\xa9", "a\n"}) {
    EXPECT_EQ(CheckTenantName(bad).code(), StatusCode::kInvalidArgument) << bad;
  }
  EXPECT_TRUE(CheckTenantName(std::string(64, 'a')).ok());
  EXPECT_FALSE(CheckTenantName(std::string(65, 'a')).ok());
}

TEST(NameConvertTest, NamesAreUtf8WithoutSlashOrControl) {
  EXPECT_TRUE(CheckName("Grüße \xe6\x97\xa5 \xf0\x9f\x93\x96", "name").ok());
  for (const std::string bad : {"", "a/b", "a\tb", "\x7f", "\xff", "\xc3", "\xc0\x80", " ",
                                "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe0\x80\x80"}) {
    EXPECT_EQ(CheckName(bad, "name").code(), StatusCode::kInvalidArgument);
  }
  EXPECT_FALSE(CheckName(std::string("a\0b", 3), "name").ok());
  EXPECT_FALSE(CheckName(std::string(256, 'a'), "name").ok());
  EXPECT_TRUE(CheckName("-a", "name").ok());
}

TEST(NameConvertTest, CollectionsDoNotLookLikeOptions) {
  EXPECT_TRUE(CheckCollection("a-b").ok());
  for (const char* bad : {"-", "-c", "", "a/b"}) {
    EXPECT_EQ(CheckCollection(bad).code(), StatusCode::kInvalidArgument) << bad;
  }
}

TEST(TokensConvertTest, ChecksCountAndSign) {
  google::protobuf::RepeatedField<int32_t> tokens;
  tokens.Add(1);
  tokens.Add(-5);
  EXPECT_THAT(ErrorOf(TokensFromProto(tokens, 1, 8, "tokens")), HasSubstr("tokens[1] is -5"));
  EXPECT_THAT(ErrorOf(TokensFromProto(tokens, 3, 8, "tokens")), HasSubstr("2 token ids"));
  EXPECT_FALSE(TokensFromProto(tokens, 0, 1, "tokens").ok());
  tokens.Set(1, 5);
  EXPECT_EQ(TokensFromProto(tokens, 0, 8, "tokens")->size(), 2u);
}

TEST(FloatsConvertTest, ChecksLengthAndFiniteness) {
  const std::vector<float> values = {1.5f, -2.0f, 0.0f};
  EXPECT_EQ(*FloatsFromBytes(FloatsToBytes(values), 3, "query"), values);
  EXPECT_FALSE(FloatsFromBytes(FloatsToBytes(values), 4, "query").ok());
  EXPECT_FALSE(FloatsFromBytes("abc", 0, "query").ok());
  const std::vector<float> nan = {std::numeric_limits<float>::quiet_NaN()};
  EXPECT_THAT(ErrorOf(FloatsFromBytes(FloatsToBytes(nan), 1, "query")), HasSubstr("query[0]"));
}

TEST(ContextConvertTest, EveryKindOfReferenceSurvivesTheRoundTrip) {
  SegmentKey key;
  key.bytes.fill(9);
  for (const ContextRef& ref :
       {ContextRef(key), ContextRef(uint64_t{42}), ContextRef(DocumentName{"c", "n", 3})}) {
    v1::ContextRef proto;
    ContextRefToProto(ref, &proto);
    EXPECT_EQ(*ContextRefFromProto(proto), ref);
  }
  EXPECT_THAT(ErrorOf(ContextRefFromProto(v1::ContextRef())), HasSubstr("context"));
}

TEST(ContextConvertTest, ContextInfoMustAgreeWithItself) {
  ContextInfo context{SmallSpec(), 300, 10, std::vector<SegmentKey>(2), SegmentKey{}};
  context.chain_tip.bytes.fill(1);
  v1::ContextInfo proto;
  ContextInfoToProto(context, &proto);
  const auto back = ContextInfoFromProto(proto);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->chain_tip, context.chain_tip);
  EXPECT_EQ(back->num_pages, 10u);
  proto.set_num_pages(9);
  EXPECT_THAT(ErrorOf(ContextInfoFromProto(proto)), HasSubstr("300 tokens take 10"));
  proto.set_num_tokens(std::numeric_limits<uint64_t>::max());
  EXPECT_FALSE(ContextInfoFromProto(proto).ok());
}

TEST(ContextConvertTest, UnitRangesStayInsideTheContext) {
  v1::UnitRange proto;
  UnitRangeToProto(UnitRange{3, {9, 0}, {1}}, &proto);
  EXPECT_EQ(UnitRangeFromProto(proto, SmallSpec(), 10)->pages, (std::vector<uint32_t>{9, 0}));
  EXPECT_THAT(ErrorOf(UnitRangeFromProto(proto, SmallSpec(), 9)), HasSubstr("page 9"));
  proto.set_layer(4);
  EXPECT_THAT(ErrorOf(UnitRangeFromProto(proto, SmallSpec(), 10)), HasSubstr("layer 4"));
  proto.set_layer(0);
  proto.set_heads(0, 2);
  EXPECT_THAT(ErrorOf(UnitRangeFromProto(proto, SmallSpec(), 10)), HasSubstr("head 2"));
}

TEST(AscendingConvertTest, RefusesDisorderRepetitionAndOverrun) {
  google::protobuf::RepeatedField<uint32_t> pages;
  for (const uint32_t page : {1u, 3u, 7u}) pages.Add(page);
  EXPECT_EQ(*AscendingFromProto(pages, 8, "pages"), (std::vector<uint32_t>{1, 3, 7}));
  EXPECT_THAT(ErrorOf(AscendingFromProto(pages, 7, "pages")), HasSubstr("must be below 7"));
  pages.Set(1, 1);
  EXPECT_THAT(ErrorOf(AscendingFromProto(pages, 8, "pages")), HasSubstr("distinct"));
  pages.Set(1, 0);
  EXPECT_FALSE(AscendingFromProto(pages, 8, "pages").ok());
}

}  // namespace
}  // namespace quire::wire
