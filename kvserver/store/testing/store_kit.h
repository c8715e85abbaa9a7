// SPDX-License-Identifier: Apache-2.0
//
// Helpers of store tests and tests of its users: small specs, made-up segments and counters by
// name.
#ifndef QUIRE_KVSERVER_STORE_TESTING_STORE_KIT_H_
#define QUIRE_KVSERVER_STORE_TESTING_STORE_KIT_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "common/page/layout.h"
#include "kvserver/store/page_store.h"

namespace quire::kvserver::testing {

/// Size of payload volumes; small ones are made quickly.
inline constexpr uint64_t kTestVolumeBytes = 1 << 20;

/// 2 layers, 2 KV heads of 8 channels, pages of 4 tokens, segments of 2 pages; a full extent has
/// 4 units of 128 bytes.
inline KvSpec SmallSpec(const std::string& model = "small") {
  KvSpec spec;
  spec.model = model;
  spec.attention = AttentionKind::kGqa;
  spec.dtype = DType::kF16;
  spec.num_layers = 2;
  spec.num_query_heads = 4;
  spec.num_kv_heads = 2;
  spec.head_dim = 8;
  spec.page_tokens = 4;
  spec.segment_pages = 2;
  spec.rope.rotary_dim = 8;
  return spec;
}

/// As SmallSpec with units of 8 KiB: a full extent has 32 KiB.
inline KvSpec LargeUnitSpec() {
  KvSpec spec = SmallSpec("large-units");
  spec.head_dim = 512;
  return spec;
}

inline std::vector<TokenId> MakeTokens(size_t count, uint64_t seed) {
  SeededRandom random(seed);
  std::vector<TokenId> tokens(count);
  for (TokenId& id : tokens) id = static_cast<TokenId>(random.Below(32000));
  return tokens;
}

/// Payload of finite numbers that depend on `seed` alone.
inline std::vector<std::byte> MakePayload(const KvSpec& spec, size_t num_tokens, uint64_t seed) {
  SeededRandom random(seed);
  std::vector<std::byte> payload(SegmentBytes(spec, PageCount(spec, num_tokens)));
  const auto count = static_cast<int64_t>(payload.size() / ElementBytes(spec.dtype));
  for (int64_t i = 0; i < count; ++i) {
    StoreElement(payload.data(), i, spec.dtype, static_cast<float>(random.Uniform()) - 0.5f);
  }
  return payload;
}

struct TestSegment {
  SegmentKey key;
  std::vector<TokenId> tokens;
  std::vector<std::byte> payload;
};

/// Puts one segment made from `seed`; full when `num_tokens` is 0.
inline StatusOr<TestSegment> PutTestSegment(PageStore& store, const KvSpec& spec, uint64_t seed,
                                            const SegmentKey& parent = kRootKey,
                                            size_t num_tokens = 0,
                                            Durability durability = Durability::kMemory,
                                            std::string_view tenant = "default") {
  TestSegment segment;
  segment.tokens = MakeTokens(num_tokens == 0 ? spec.segment_tokens() : num_tokens, seed);
  segment.payload = MakePayload(spec, segment.tokens.size(), seed);
  PutSegmentArgs args;
  args.spec = &spec;
  args.parent = parent;
  args.tokens = segment.tokens;
  args.payload = segment.payload;
  args.durability = durability;
  QUIRE_ASSIGN_OR_RETURN(const PutSegmentResult result, store.PutSegment(tenant, args));
  segment.key = result.key;
  return segment;
}

/// Puts a chain of full segments made from `seed`, `seed` + 1, ...
inline StatusOr<std::vector<TestSegment>> PutTestChain(PageStore& store, const KvSpec& spec,
                                                       uint64_t seed, size_t num_segments,
                                                       Durability durability = Durability::kMemory,
                                                       std::string_view tenant = "default") {
  std::vector<TestSegment> chain;
  SegmentKey parent = kRootKey;
  for (size_t i = 0; i < num_segments; ++i) {
    QUIRE_ASSIGN_OR_RETURN(
        TestSegment segment,
        PutTestSegment(store, spec, seed + i, parent, /*num_tokens=*/0, durability, tenant));
    parent = segment.key;
    chain.push_back(std::move(segment));
  }
  return chain;
}

/// Addresses of all units of a segment of `num_tokens` tokens, in payload order.
inline std::vector<UnitAddress> AllUnits(const KvSpec& spec, const SegmentKey& key,
                                         size_t num_tokens) {
  std::vector<UnitAddress> units;
  const uint32_t per_layer = PageCount(spec, num_tokens) * spec.num_kv_heads;
  for (uint32_t layer = 0; layer < spec.num_layers; ++layer) {
    for (uint32_t unit = 0; unit < per_layer; ++unit) units.push_back({key, layer, unit});
  }
  return units;
}

inline std::vector<std::byte> Concatenate(const std::vector<UnitBytes>& units) {
  std::vector<std::byte> out;
  for (const UnitBytes& unit : units) {
    const std::span<const std::byte> bytes = unit.ToSend().slice.bytes;
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
  return out;
}

/// The bytes of a whole segment, read unit by unit.
inline StatusOr<std::vector<std::byte>> ReadSegment(PageStore& store, const KvSpec& spec,
                                                    const TestSegment& segment,
                                                    std::string_view tenant = "default") {
  std::vector<UnitBytes> units;
  QUIRE_RETURN_IF_ERROR(
      store.ReadUnits(tenant, AllUnits(spec, segment.key, segment.tokens.size()), &units));
  return Concatenate(units);
}

/// Every counter and gauge of `component` by name.
template <typename Component>
std::map<std::string, uint64_t> CountersOf(const Component& component) {
  return MetricValuesOf(component);
}

}  // namespace quire::kvserver::testing

#endif  // QUIRE_KVSERVER_STORE_TESTING_STORE_KIT_H_
