// SPDX-License-Identifier: Apache-2.0
//
// A small spec and pages whose bytes follow from their place, so that a test knows every unit's
// contents. Only tests use it.
#ifndef QUIRE_KVSERVER_SESSION_TESTING_TEST_PAGES_H_
#define QUIRE_KVSERVER_SESSION_TESTING_TEST_PAGES_H_

#include <cstring>
#include <numeric>
#include <span>
#include <vector>

#include "common/base/random.h"
#include "common/page/key.h"
#include "common/page/layout.h"

namespace quire::kvserver::testing {

/// 3 layers, 4 query heads, 2 KV heads, d = 8, p = 4, g = 4, f32: units of 256 bytes.
inline KvSpec TestSpec() {
  KvSpec spec;
  spec.model = "test";
  spec.weights_hash.fill(3);
  spec.dtype = DType::kF32;
  spec.num_layers = 3;
  spec.num_query_heads = 4;
  spec.num_kv_heads = 2;
  spec.head_dim = 8;
  spec.page_tokens = 4;
  spec.segment_pages = 4;
  spec.rope.rotary_dim = 8;
  return spec;
}

/// Token ids first, first + 1, ...
inline std::vector<TokenId> TestTokens(uint32_t count, TokenId first = 100) {
  std::vector<TokenId> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

/// The unit of (page, layer, head): numbers derived from those; rows from `rows` on are zero.
inline std::vector<std::byte> TestUnit(const KvSpec& spec, uint32_t page, uint32_t layer,
                                       uint32_t head, uint32_t rows, uint64_t seed = 1) {
  SeededRandom random(seed * 1000003 + (page * 64 + layer) * 64 + head);
  std::vector<float> values(quire::UnitBytes(spec) / sizeof(float));
  for (size_t i = 0; i < values.size(); ++i) {
    const float value = random.Normal();
    values[i] = (i / spec.key_dim()) % spec.page_tokens < rows ? value : 0.0f;
  }
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

/// Units of one page at all layers, [num_layers][n_kv].
inline std::vector<std::byte> TestPage(const KvSpec& spec, uint32_t page, uint32_t rows,
                                       uint64_t seed = 1) {
  std::vector<std::byte> bytes;
  for (uint32_t layer = 0; layer < spec.num_layers; ++layer) {
    for (uint32_t head = 0; head < spec.num_kv_heads; ++head) {
      const auto unit = TestUnit(spec, page, layer, head, rows, seed);
      bytes.insert(bytes.end(), unit.begin(), unit.end());
    }
  }
  return bytes;
}

/// [pages][num_layers][n_kv] units of whole pages.
inline std::vector<std::byte> TestPages(const KvSpec& spec, uint32_t first, uint32_t count,
                                        uint64_t seed = 1) {
  std::vector<std::byte> bytes;
  for (uint32_t page = first; page < first + count; ++page) {
    const auto units = TestPage(spec, page, spec.page_tokens, seed);
    bytes.insert(bytes.end(), units.begin(), units.end());
  }
  return bytes;
}

/// [layers][pages][n_kv] units of whole pages.
inline std::vector<std::byte> TestLayers(const KvSpec& spec, uint32_t first, uint32_t count,
                                         std::span<const uint32_t> layers, uint64_t seed = 1) {
  std::vector<std::byte> bytes;
  for (const uint32_t layer : layers) {
    for (uint32_t page = first; page < first + count; ++page) {
      for (uint32_t head = 0; head < spec.num_kv_heads; ++head) {
        const auto unit = TestUnit(spec, page, layer, head, spec.page_tokens, seed);
        bytes.insert(bytes.end(), unit.begin(), unit.end());
      }
    }
  }
  return bytes;
}

}  // namespace quire::kvserver::testing

#endif  // QUIRE_KVSERVER_SESSION_TESTING_TEST_PAGES_H_
