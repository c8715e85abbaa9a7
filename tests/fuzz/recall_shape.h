// SPDX-License-Identifier: Apache-2.0
//
// The one recall that the service fuzzer and its seed agree on: a small spec, what is wanted, and
// unit bytes whose checksums are known.
#ifndef QUIRE_TESTS_FUZZ_RECALL_SHAPE_H_
#define QUIRE_TESTS_FUZZ_RECALL_SHAPE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "client/recall_codec.h"
#include "common/page/layout.h"

namespace quire::fuzz {

/// `size` bytes, the same for every unit.
inline std::vector<std::byte> UnitPattern(size_t size) {
  return std::vector<std::byte>(size, std::byte{0x5a});
}

struct RecallShape {
  RecallShape() {
    spec.model = "seed";
    spec.num_layers = 2;
    spec.num_query_heads = 2;
    spec.num_kv_heads = 2;
    spec.head_dim = 4;
    spec.page_tokens = 2;
    spec.segment_pages = 2;
    spec.rope.rotary_dim = 4;
  }
  v1::RecallRequest Request() const {
    v1::RecallRequest request;
    request.set_session_id(1);
    request.set_epoch(1);
    request.set_sequence(1);
    WantsToProto(wants, &request);
    return request;
  }

  KvSpec spec;
  uint32_t slots_per_head = 4;
  std::vector<uint32_t> managed = {0, 1};
  std::vector<LayerWant> wants = {{.layer = 1, .pages = {{0, 2}, {1}}}};
};

}  // namespace quire::fuzz

#endif  // QUIRE_TESTS_FUZZ_RECALL_SHAPE_H_
