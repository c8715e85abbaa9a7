// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "common/page/key.h"
#include "common/page/kv_spec.h"
#include "common/page/layout.h"
#include "common/page/page_name.h"
#include "common/page/rope_rotation.h"

namespace quire {
namespace {

KvSpec Llama8B() {
  KvSpec spec;
  spec.model = "llama-3.1-8b";
  spec.num_layers = 32;
  spec.num_query_heads = 32;
  spec.num_kv_heads = 8;
  spec.head_dim = 128;
  spec.rope.rotary_dim = 128;
  return spec;
}

KvSpec Mla() {
  KvSpec spec = Llama8B();
  spec.attention = AttentionKind::kMla;
  spec.num_kv_heads = 1;
  spec.head_dim = 0;
  spec.latent_dim = 512;
  spec.latent_rope_dim = 64;
  spec.rope.rotary_dim = 64;
  return spec;
}

TEST(DTypeTest, EveryHalfSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float as_f16 = F16ToFloat(half), as_bf16 = BF16ToFloat(half);
    if (std::isnan(as_f16))
      EXPECT_TRUE(std::isnan(F16ToFloat(FloatToF16(as_f16))));
    else
      EXPECT_EQ(FloatToF16(as_f16), half) << bits;
    if (std::isnan(as_bf16))
      EXPECT_TRUE(std::isnan(BF16ToFloat(FloatToBF16(as_bf16))));
    else
      EXPECT_EQ(FloatToBF16(as_bf16), half) << bits;
  }
}

TEST(DTypeTest, RoundsToNearestEvenAndOverflowsToInfinity) {
  EXPECT_EQ(F16ToFloat(FloatToF16(1.0f + 0x1p-11f)), 1.0f);                // tie, even below
  EXPECT_EQ(F16ToFloat(FloatToF16(1.0f + 3 * 0x1p-11f)), 1.0f + 0x1p-9f);  // tie, even above
  EXPECT_EQ(F16ToFloat(FloatToF16(65519.0f)), 65504.0f);
  EXPECT_TRUE(std::isinf(F16ToFloat(FloatToF16(65520.0f))));
  EXPECT_EQ(F16ToFloat(FloatToF16(0x1p-25f)), 0.0f);
  EXPECT_EQ(F16ToFloat(FloatToF16(0x1.8p-25f)), 0x1p-24f);
  EXPECT_EQ(BF16ToFloat(FloatToBF16(1.0f + 0x1p-8f)), 1.0f);
  EXPECT_TRUE(std::isinf(BF16ToFloat(FloatToBF16(std::numeric_limits<float>::max()))));
}

TEST(LayoutTest, SizesOfAnEightBillionModel) {
  const KvSpec spec = Llama8B();
  EXPECT_EQ(UnitBytes(spec), 16u << 10);
  EXPECT_EQ(ValueOffsetBytes(spec), 8u << 10);
  EXPECT_EQ(ExtentBytes(spec, 8), 1u << 20);
  EXPECT_EQ(SegmentBytes(spec, 1), 4u << 20);
}

TEST(LayoutTest, MultiQueryAndLatentAttention) {
  KvSpec mqa = Llama8B();
  mqa.attention = AttentionKind::kMqa;
  mqa.num_kv_heads = 1;
  EXPECT_EQ(Problem(mqa), "");
  EXPECT_EQ(ExtentBytes(mqa, 8), 128u << 10);
  const KvSpec mla = Mla();
  EXPECT_EQ(Problem(mla), "");
  EXPECT_EQ(UnitBytes(mla), 32u * 576 * 2);
  EXPECT_EQ(ValueOffsetBytes(mla), UnitBytes(mla));
}

TEST(LayoutTest, ShortLastPagesAndSegments) {
  const KvSpec spec = Llama8B();  // 32 tokens a page, 256 a segment
  for (uint64_t tokens : {0, 1, 31, 32, 33, 255, 256, 257, 1000}) {
    uint64_t in_pages = 0, in_segments = 0;
    for (uint32_t i = 0; i < PageCount(spec, tokens); ++i)
      in_pages += TokensInPage(spec, tokens, i);
    for (uint32_t i = 0; i < SegmentCount(spec, tokens); ++i)
      in_segments += TokensInSegment(spec, tokens, i);
    EXPECT_EQ(in_pages, tokens);
    EXPECT_EQ(in_segments, tokens);
    EXPECT_EQ(TokensInPage(spec, tokens, PageCount(spec, tokens)), 0u);
  }
}

TEST(KvSpecTest, NamesTheFieldThatIsWrong) {
  EXPECT_EQ(Problem(Llama8B()), "");
  KvSpec bad = Llama8B();
  bad.num_layers = 0;
  EXPECT_NE(Problem(bad).find("num_layers"), std::string::npos);
  bad = Llama8B();
  bad.num_kv_heads = 5;
  EXPECT_NE(Problem(bad).find("multiple"), std::string::npos);
  bad = Llama8B();
  bad.rope.rotary_dim = 129;
  EXPECT_NE(Problem(bad).find("rotary_dim"), std::string::npos);
  bad = Llama8B();
  bad.rope.theta = std::nan("");
  EXPECT_NE(Problem(bad), "");
  bad = Llama8B();
  bad.rope.scaling = RopeScaling::kDynamic;
  EXPECT_NE(Problem(bad).find("before RoPE"), std::string::npos);
  bad = Llama8B();
  bad.rope.pair_factors = {1.0};
  EXPECT_NE(Problem(bad).find("pair_factors has 1"), std::string::npos);
  bad.rope.scaling = RopeScaling::kLongRope;
  bad.rope.pair_factors.assign(bad.rope.rotary_dim / 2, 2.0);
  EXPECT_EQ(Problem(bad), "");
  bad.rope.pair_factors[3] = 0;
  EXPECT_NE(Problem(bad).find("not positive"), std::string::npos);
  bad = Mla();
  bad.head_dim = 128;
  EXPECT_NE(Problem(bad).find("MLA"), std::string::npos);
  bad = Llama8B();
  bad.dtype = static_cast<DType>(77);
  EXPECT_NE(Problem(bad).find("dtype"), std::string::npos);
}

TEST(KvSpecTest, FingerprintDependsOnEveryField) {
  std::vector<KvSpec> variants(14, Llama8B());
  variants[1].model = "other";
  variants[2].weights_hash[31] = 1;
  variants[3].dtype = DType::kBF16;
  variants[4].num_layers = 31;
  variants[5].head_dim = 64;
  variants[6].page_tokens = 16;
  variants[7].segment_pages = 4;
  variants[8].rope.theta = 500000;
  variants[9].rope.state = RopeState::kPre;
  variants[10].rope.interleaved = true;
  variants[11].rope.attention_factor = 1.1;
  variants[12].rope.pair_factors = {1.0};
  variants[13].rope.pair_factors = {2.0};
  std::set<SpecFingerprint> seen;
  for (const KvSpec& v : variants) seen.insert(Fingerprint(v));
  EXPECT_EQ(seen.size(), variants.size());
  EXPECT_EQ(Fingerprint(Llama8B()), Fingerprint(Llama8B()));
  EXPECT_EQ(FirstDifference(variants[0], variants[0]), "");
  EXPECT_EQ(FirstDifference(variants[0], variants[6]), "page_tokens: 32 vs 16");
  EXPECT_EQ(FirstDifference(variants[12], variants[13]), "rope.pair_factors: 1 vs 2");
  EXPECT_EQ(FirstDifference(variants[0], variants[13]), "rope.pair_factors");
  EXPECT_EQ(FirstDifference(variants[13], variants[0]), "rope.pair_factors");
}

/// Every field of a spec, each changed alone. A new field of KvSpec or RopeSpec breaks the bindings
/// below until it is listed here.
std::vector<std::pair<std::string, KvSpec>> OneFieldChanged(const KvSpec& base) {
  std::vector<std::pair<std::string, KvSpec>> changed;
  [[maybe_unused]] const auto& [model, weights_hash, attention, dtype, num_layers, num_query_heads,
                                num_kv_heads, head_dim, latent_dim, latent_rope_dim, page_tokens,
                                segment_pages, rope] = base;
  [[maybe_unused]] const auto& [state, scaling, interleaved, rotary_dim, theta, factor,
                                low_freq_factor, high_freq_factor, original_context, beta_fast,
                                beta_slow, attention_factor, pair_factors] = rope;
  const auto add = [&](const char* name, auto change) {
    changed.emplace_back(name, base);
    change(changed.back().second);
  };
  add("model", [](KvSpec& s) { s.model = s.model + "b"; });
  add("weights_hash", [](KvSpec& s) { s.weights_hash[31] = s.weights_hash[31] ^ 1; });
  add("attention", [](KvSpec& s) {
    s.attention = s.attention == AttentionKind::kMha ? AttentionKind::kGqa : AttentionKind::kMha;
  });
  add("dtype", [](KvSpec& s) { s.dtype = s.dtype == DType::kBF16 ? DType::kF16 : DType::kBF16; });
  add("num_layers", [](KvSpec& s) { s.num_layers = s.num_layers + 1; });
  add("num_query_heads", [](KvSpec& s) { s.num_query_heads = s.num_query_heads + 1; });
  add("num_kv_heads", [](KvSpec& s) { s.num_kv_heads = s.num_kv_heads + 1; });
  add("head_dim", [](KvSpec& s) { s.head_dim = s.head_dim + 1; });
  add("latent_dim", [](KvSpec& s) { s.latent_dim = s.latent_dim + 1; });
  add("latent_rope_dim", [](KvSpec& s) { s.latent_rope_dim = s.latent_rope_dim + 1; });
  add("page_tokens", [](KvSpec& s) { s.page_tokens = s.page_tokens + 1; });
  add("segment_pages", [](KvSpec& s) { s.segment_pages = s.segment_pages + 1; });
  add("rope.state", [](KvSpec& s) {
    s.rope.state = s.rope.state == RopeState::kPre ? RopeState::kPost : RopeState::kPre;
  });
  add("rope.scaling", [](KvSpec& s) {
    s.rope.scaling =
        s.rope.scaling == RopeScaling::kYarn ? RopeScaling::kLinear : RopeScaling::kYarn;
  });
  add("rope.interleaved", [](KvSpec& s) { s.rope.interleaved = !s.rope.interleaved; });
  add("rope.rotary_dim", [](KvSpec& s) { s.rope.rotary_dim = s.rope.rotary_dim + 2; });
  add("rope.theta", [](KvSpec& s) { s.rope.theta = s.rope.theta + 1; });
  add("rope.factor", [](KvSpec& s) { s.rope.factor = s.rope.factor + 1; });
  add("rope.low_freq_factor",
      [](KvSpec& s) { s.rope.low_freq_factor = s.rope.low_freq_factor + 1; });
  add("rope.high_freq_factor",
      [](KvSpec& s) { s.rope.high_freq_factor = s.rope.high_freq_factor + 1; });
  add("rope.original_context",
      [](KvSpec& s) { s.rope.original_context = s.rope.original_context + 1; });
  add("rope.beta_fast", [](KvSpec& s) { s.rope.beta_fast = s.rope.beta_fast + 1; });
  add("rope.beta_slow", [](KvSpec& s) { s.rope.beta_slow = s.rope.beta_slow + 1; });
  add("rope.attention_factor",
      [](KvSpec& s) { s.rope.attention_factor = s.rope.attention_factor + 1; });
  add("rope.pair_factors", [](KvSpec& s) { s.rope.pair_factors.push_back(1.0); });
  return changed;
}

// Promise 1: caches of different specs never meet, whichever field differs.
TEST(KvSpecTest, EveryFieldAloneChangesTheFingerprintAndIsNamed) {
  KvSpec long_rope = Llama8B();
  long_rope.rope.scaling = RopeScaling::kLongRope;
  long_rope.rope.pair_factors.assign(64, 1.5);
  for (const KvSpec& base : {Llama8B(), Mla(), long_rope}) {
    std::set<SpecFingerprint> seen = {Fingerprint(base)};
    const auto variants = OneFieldChanged(base);
    EXPECT_EQ(variants.size(), 25u);
    for (const auto& [field, spec] : variants) {
      SCOPED_TRACE(field);
      EXPECT_TRUE(seen.insert(Fingerprint(spec)).second);
      EXPECT_NE(spec, base);
      EXPECT_EQ(FirstDifference(base, spec).rfind(field, 0), 0u) << FirstDifference(base, spec);
    }
    for (size_t i = 0; i < base.rope.pair_factors.size(); ++i) {
      KvSpec spec = base;
      spec.rope.pair_factors[i] = 2.5;
      EXPECT_TRUE(seen.insert(Fingerprint(spec)).second) << "pair " << i;
    }
    for (size_t i = 0; i < base.weights_hash.size(); ++i) {
      KvSpec spec = base;
      spec.weights_hash[i] ^= 0x80;
      EXPECT_TRUE(seen.insert(Fingerprint(spec)).second) << "byte " << i << " of the weights' hash";
    }
  }
}

class KeyTest : public testing::Test {
 protected:
  KvSpec spec_ = Llama8B();
  TenantSalt salt_{1, 2, 3};
  std::vector<TokenId> tokens_ = [] {
    std::vector<TokenId> t(700);
    for (size_t i = 0; i < t.size(); ++i) t[i] = static_cast<TokenId>(i * 7 % 1000);
    return t;
  }();
};

// Promise: a common prefix is the same segments.
TEST_F(KeyTest, CommonPrefixIsTheSameSegments) {
  std::vector<TokenId> other = tokens_;
  other[300] = 999999;
  const auto a = ChainKeys(salt_, spec_, tokens_), b = ChainKeys(salt_, spec_, other);
  ASSERT_EQ(a.size(), 3u);
  EXPECT_EQ(a[0], b[0]);
  EXPECT_NE(a[1], b[1]);
  EXPECT_NE(a[2], b[2]) << "the parent is part of the key";
}

TEST_F(KeyTest, ShortSegmentDiffersFromTheFullOne) {
  const auto full = ChainKeys(salt_, spec_, std::span(tokens_).first(256));
  const auto part = ChainKeys(salt_, spec_, std::span(tokens_).first(255));
  EXPECT_NE(full[0], part[0]);
}

// Promise: tenants never share segments.
TEST_F(KeyTest, TenantsAndSpecsNeverShareKeys) {
  TenantSalt other_salt = salt_;
  other_salt[31] ^= 1;
  KvSpec other_spec = spec_;
  other_spec.dtype = DType::kBF16;
  const auto base = ChainKeys(salt_, spec_, tokens_);
  EXPECT_NE(base[0], ChainKeys(other_salt, spec_, tokens_)[0]);
  EXPECT_NE(base[0], ChainKeys(salt_, other_spec, tokens_)[0]);
}

// Promises 1 and 7: a key depends on all its inputs. Each token, each byte of the parent, the salt
// and the fingerprint is changed alone, and each token is dropped.
TEST_F(KeyTest, EveryTokenTheParentTheSaltAndTheFingerprintAloneChangeTheKey) {
  const SpecFingerprint spec = Fingerprint(spec_);
  const SegmentKey parent = ChainKeys(salt_, spec_, tokens_)[0];
  const std::vector<TokenId> tokens(tokens_.begin(), tokens_.begin() + 40);
  std::set<SegmentKey> seen = {ComputeKey(salt_, spec, parent, tokens)};
  const auto expect_new = [&](const SegmentKey& key, const char* what, size_t i) {
    EXPECT_TRUE(seen.insert(key).second) << what << " " << i;
  };
  for (size_t i = 0; i < tokens.size(); ++i) {
    std::vector<TokenId> other = tokens;
    other.erase(other.begin() + static_cast<ptrdiff_t>(i));
    expect_new(ComputeKey(salt_, spec, parent, other), "without token", i);
    for (int bit = 0; bit < 32; ++bit) {
      other = tokens;
      other[i] = static_cast<TokenId>(static_cast<uint32_t>(other[i]) ^ uint32_t{1} << bit);
      expect_new(ComputeKey(salt_, spec, parent, other), "a bit of token", i);
    }
  }
  for (size_t i = 0; i < 32; ++i) {
    TenantSalt salt = salt_;
    salt[i] ^= 0x10;
    expect_new(ComputeKey(salt, spec, parent, tokens), "byte of the salt", i);
    SpecFingerprint other_spec = spec;
    other_spec[i] ^= 0x10;
    expect_new(ComputeKey(salt_, other_spec, parent, tokens), "byte of the fingerprint", i);
    SegmentKey other_parent = parent;
    other_parent.bytes[i] ^= 0x10;
    expect_new(ComputeKey(salt_, spec, other_parent, tokens), "byte of the parent", i);
  }
}

TEST_F(KeyTest, HexRoundTripAndRejection) {
  const SegmentKey key = ChainKeys(salt_, spec_, tokens_)[1];
  EXPECT_EQ(SegmentKey::FromHex(key.Hex()), key);
  EXPECT_EQ(SegmentKey::FromBytes(key.view()), key);
  EXPECT_FALSE(SegmentKey::FromHex("abc"));
  EXPECT_FALSE(SegmentKey::FromHex(std::string(64, 'g')));
  EXPECT_FALSE(SegmentKey::FromBytes("short"));
}

TEST(PageNameTest, NamesOrderByMemberThenPage) {
  EXPECT_EQ(PageName(0, 7), 7u);
  EXPECT_EQ(MemberOf(PageName(63, 5)), 63u);
  EXPECT_EQ(PageOf(PageName(63, (1u << 24) - 1)), (1u << 24) - 1);
  EXPECT_LT(PageName(1, (1u << 24) - 1), PageName(2, 0));
}

TEST(RopeRotationTest, AMoveTurnsEachPairByItsFrequency) {
  const RopeRotation rotation({.rotary_dim = 4, .theta = 10000.0, .attention_factor = 1.5});
  EXPECT_DOUBLE_EQ(rotation.inverse_frequencies()[1], 0.01);
  float cosines[2], sines[2];
  rotation.FillMove(-1000, cosines, sines);
  EXPECT_FLOAT_EQ(cosines[0], static_cast<float>(std::cos(1000.0)));
  EXPECT_FLOAT_EQ(sines[0], static_cast<float>(-std::sin(1000.0)));
  EXPECT_FLOAT_EQ(sines[1], static_cast<float>(-std::sin(10.0)));
  rotation.FillMove(0, cosines, sines);
  EXPECT_EQ(cosines[1], 1.0f);
  EXPECT_EQ(sines[1], 0.0f);
}

}  // namespace
}  // namespace quire
