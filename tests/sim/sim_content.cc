// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/sim_content.h"

#include <algorithm>

#include "common/base/random.h"
#include "kernels/cpu/cpu_kernels.h"
#include "quire/layout.h"
#include "tests/sim/sim_disk.h"

namespace quire::sim {
namespace {

constexpr uint64_t kSegmentsOfContent = 2;
constexpr uint64_t kFamilies = 4;

struct ContentSegment {
  std::vector<TokenId> tokens;
  std::vector<std::byte> payload;
};

/// The first segment belongs to the family, the others to the number alone.
ContentSegment SegmentOf(uint64_t content, uint64_t index) {
  SeededRandom random(index == 0 ? content % kFamilies : (content << 8) + index);
  ContentSegment segment;
  for (uint32_t i = 0; i < SimSpec().segment_tokens(); ++i) {
    segment.tokens.push_back(static_cast<TokenId>(random.Below(1000)));
  }
  segment.payload.resize(SegmentBytes(SimSpec(), SimSpec().segment_pages));
  random.Fill({reinterpret_cast<uint8_t*>(segment.payload.data()), segment.payload.size()});
  return segment;
}

}  // namespace

const KvSpec& SimSpec() {
  static const KvSpec spec = [] {
    KvSpec small;
    small.model = "sim";
    small.num_layers = 1;
    small.num_query_heads = small.num_kv_heads = 1;
    small.head_dim = 8;
    small.page_tokens = 4;
    small.segment_pages = 1;
    small.rope.rotary_dim = 8;
    return small;
  }();
  return spec;
}

StatusOr<SegmentKey> PutContent(kvserver::PageStore& store, uint64_t content) {
  SegmentKey tip = kRootKey;
  for (uint64_t i = 0; i < kSegmentsOfContent; ++i) {
    const ContentSegment segment = SegmentOf(content, i);
    QUIRE_ASSIGN_OR_RETURN(const auto put,
                           store.PutSegment(kSimTenant, {.spec = &SimSpec(),
                                                         .parent = tip,
                                                         .tokens = segment.tokens,
                                                         .payload = segment.payload}));
    tip = put.key;
  }
  return tip;
}

SegmentKey TipOf(uint64_t content) {
  kvserver::testing::FakePageStore store;
  return PutContent(store, content).value_or(kRootKey);
}

Status CheckContent(kvserver::PageStore& store, const SegmentKey& tip, uint64_t content) {
  QUIRE_ASSIGN_OR_RETURN(const auto chain, store.ResolveChain(kSimTenant, tip));
  if (chain->keys.size() != kSegmentsOfContent) return DataLoss("the chain has another length");
  for (uint64_t i = 0; i < kSegmentsOfContent; ++i) {
    const ContentSegment segment = SegmentOf(content, i);
    QUIRE_ASSIGN_OR_RETURN(const auto tokens, store.Tokens(kSimTenant, chain->keys[i]));
    const kvserver::UnitAddress address = {.segment = chain->keys[i]};
    std::vector<kvserver::VerifiedBytes> units;
    QUIRE_RETURN_IF_ERROR(store.ReadVerified(kvserver::Caller(kSimTenant), {&address, 1}, &units));
    if (tokens != segment.tokens || !std::ranges::equal(units[0].bytes(), segment.payload)) {
      return DataLoss("segment ", i, " has other bytes");
    }
  }
  return OkStatus();
}

}  // namespace quire::sim
