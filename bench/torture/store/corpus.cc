// SPDX-License-Identifier: Apache-2.0
#include "bench/torture/store/corpus.h"

#include <algorithm>
#include <cstring>

#include "bench/kit/gqa_spec.h"
#include "common/base/random.h"
#include "quire/layout.h"

namespace quire::torture {
namespace {

constexpr uint32_t kVocabulary = 32000;
/// Clears the highest exponent bit of four 16-bit floats, so that each is finite.
constexpr uint64_t kFinite = 0xbfffbfffbfffbfff;

KvSpec MakeSpec(const char* model, uint32_t layers, uint32_t head_dim, uint32_t page_tokens,
                uint32_t segment_pages) {
  KvSpec spec = bench::GqaSpec(
      model, {.layers = layers, .query_heads = 4, .kv_heads = 2, .head_dim = head_dim});
  spec.page_tokens = page_tokens;
  spec.segment_pages = segment_pages;
  return spec;
}

}  // namespace

std::vector<KvSpec> SmallSpecs() {
  return {MakeSpec("torture-blocks", 2, 256, 4, 2), MakeSpec("torture-odd", 2, 200, 4, 2)};
}

KvSpec LargeSpec() { return MakeSpec("torture-large", 4, 128, 32, 8); }

uint64_t Corpus::SeedOf(SegmentId id, uint64_t purpose) const {
  SeededRandom mixed(options_.seed ^ (uint64_t{id.chain} << 32 | id.index));
  return mixed.Next() ^ purpose;
}

std::vector<TokenId> Corpus::Tokens(SegmentId id) const {
  SeededRandom random(SeedOf(id, 0));
  const uint32_t full = Spec(id.chain).segment_tokens();
  const bool is_short = id.index + 1 == segments() && id.chain % 4 == 3;
  std::vector<TokenId> tokens(is_short ? 1 + random.Below(full - 1) : full);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random.Below(kVocabulary));
  return tokens;
}

std::vector<TokenId> Corpus::TokensUpTo(SegmentId id) const {
  std::vector<TokenId> tokens;
  for (uint32_t index = 0; index <= id.index; ++index) {
    std::ranges::copy(Tokens({id.chain, index}), std::back_inserter(tokens));
  }
  return tokens;
}

std::vector<std::byte> Corpus::Payload(SegmentId id) const {
  const KvSpec& spec = Spec(id.chain);
  SeededRandom random(SeedOf(id, 1));
  std::vector<std::byte> payload(SegmentBytes(spec, PageCount(spec, Tokens(id).size())));
  for (size_t at = 0; at < payload.size(); at += sizeof(uint64_t)) {
    const uint64_t word = random.Next() & kFinite;
    std::memcpy(payload.data() + at, &word, std::min(sizeof word, payload.size() - at));
  }
  return payload;
}

std::vector<SegmentKey> Corpus::Keys(uint32_t chain, const TenantSalt& salt) const {
  return ChainKeys(salt, Spec(chain), TokensUpTo({chain, segments() - 1}));
}

}  // namespace quire::torture
