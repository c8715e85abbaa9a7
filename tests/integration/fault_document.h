// SPDX-License-Identifier: Apache-2.0
//
// The document of tests of faults during a transfer: 4 MiB in units of 8 KiB, with known bytes.
// Functions store it, recall all of it, and check the result.
#ifndef QUIRE_TESTS_INTEGRATION_FAULT_DOCUMENT_H_
#define QUIRE_TESTS_INTEGRATION_FAULT_DOCUMENT_H_

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "quire/client.h"
#include "quire/layout.h"
#include "quire/session.h"

namespace quire::testing {

inline constexpr char kFaultDocument[] = "doc";
inline constexpr uint32_t kFaultPages = 64;

/// A client window smaller than a part of the document's recall: the next part waits until that one
/// was taken.
inline constexpr uint64_t kSmallWindow = 64 << 10;

/// 4 layers, 2 KV heads of 64 channels, pages of 16 tokens, segments of 8 pages.
inline KvSpec FaultSpec() {
  KvSpec spec;
  spec.model = "faults";
  spec.dtype = DType::kF32;
  spec.num_layers = 4;
  spec.num_query_heads = 4;
  spec.num_kv_heads = 2;
  spec.head_dim = 64;
  spec.page_tokens = 16;
  spec.segment_pages = 8;
  spec.rope.rotary_dim = 64;
  return spec;
}
inline uint64_t FaultUnits() {
  const KvSpec spec = FaultSpec();
  return uint64_t{kFaultPages} * spec.num_layers * spec.num_kv_heads;
}

/// The unit of (page, layer, head): finite floats, the same in every process. Units begin at
/// different places of one series, which is made once. They repeat after 1024 pages.
inline std::vector<std::byte> FaultUnit(uint32_t page, uint32_t layer, uint32_t head) {
  constexpr size_t kApart = 16, kUnits = size_t{8} << 10;
  static const std::vector<float> series = [] {
    std::vector<float> values(kUnits * kApart + UnitBytes(FaultSpec()) / sizeof(float));
    SeededRandom random(1);
    for (float& value : values) value = static_cast<float>(random.Uniform());
    return values;
  }();
  const KvSpec spec = FaultSpec();
  const size_t unit =
      ((size_t{page} * spec.num_layers + layer) * spec.num_kv_heads + head) % kUnits;
  const auto bytes =
      std::as_bytes(std::span(series)).subspan(unit * kApart * sizeof(float), UnitBytes(spec));
  return {bytes.begin(), bytes.end()};
}

/// Stores the document for the client's tenant.
inline Status PutFaultDocument(Client& client) {
  const KvSpec spec = FaultSpec();
  std::vector<TokenId> tokens(kFaultPages * spec.page_tokens);
  std::iota(tokens.begin(), tokens.end(), 100);
  Payload pages;
  for (uint32_t page = 0; page < kFaultPages; ++page) {
    for (uint32_t layer = 0; layer < spec.num_layers; ++layer) {
      for (uint32_t head = 0; head < spec.num_kv_heads; ++head) {
        pages.Append(FaultUnit(page, layer, head));
      }
    }
  }
  QUIRE_ASSIGN_OR_RETURN(const OpenedContext context, client.OpenContext(spec, std::nullopt));
  QUIRE_RETURN_IF_ERROR(client.AppendPages(context.id, 0, tokens, pages).status());
  QUIRE_ASSIGN_OR_RETURN(const ContextInfo info, client.Seal(context.id, {}, {}));
  return client.RegisterDocument({.name = kFaultDocument}, info.chain_tip).status();
}

/// A session with a slot for every page, so that a recall that was never applied is repeated in
/// full.
inline StatusOr<std::unique_ptr<ClientSession>> OpenFaultSession(Client& client) {
  return client.OpenSession(DocumentName{.name = kFaultDocument},
                            {.spec = FaultSpec(), .slots_per_head = kFaultPages});
}

/// Wants every page of every layer.
inline std::vector<LayerWant> WantAllOfIt() {
  std::vector<uint32_t> pages(kFaultPages);
  std::iota(pages.begin(), pages.end(), 0u);
  LayerWant want{.num_layers = FaultSpec().num_layers};
  for (uint32_t head = 0; head < FaultSpec().num_kv_heads; ++head) want.pages.AppendHead(pages);
  return {want};
}

/// Checks that `payload` holds the units of `placements`, byte for byte.
inline Status CheckFaultUnits(const std::vector<Placement>& placements, const Payload& payload) {
  const uint64_t unit_bytes = UnitBytes(FaultSpec());
  if (payload.size_bytes() != placements.size() * unit_bytes) {
    return DataLoss(payload.size_bytes(), " bytes for ", placements.size(), " units");
  }
  std::vector<std::byte> bytes(payload.size_bytes());
  payload.CopyTo(bytes.data());
  for (size_t i = 0; i < placements.size(); ++i) {
    const Placement& at = placements[i];
    const auto unit = FaultUnit(at.page, at.layer, at.head);
    if (std::memcmp(bytes.data() + i * unit_bytes, unit.data(), unit_bytes) == 0) continue;
    return DataLoss("page ", at.page, " layer ", at.layer, " head ", at.head);
  }
  return OkStatus();
}

}  // namespace quire::testing

#endif  // QUIRE_TESTS_INTEGRATION_FAULT_DOCUMENT_H_
