// SPDX-License-Identifier: Apache-2.0
//
// The recall of the service fuzzer and its seed: a small spec, the wants, and unit bytes with known
// checksums.
#ifndef QUIRE_TESTS_FUZZ_RECALL_SHAPE_H_
#define QUIRE_TESTS_FUZZ_RECALL_SHAPE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "client/recall/recall_codec.h"
#include "client/recall/worker_slots.h"
#include "quire/layout.h"

namespace quire::fuzz {

using namespace internal;

/// `size` bytes, the same for every unit.
inline std::vector<std::byte> UnitPattern(size_t size) {
  return std::vector<std::byte>(size, std::byte{0x5a});
}

/// Layer 0 wants the server's selection, layer 1 named pages.
struct RecallShape {
  static constexpr uint32_t kSequenceSlots = 3;  ///< Slots per head of the wanted sequence.

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
  WorkerSlots Map() const {
    WorkerSlots map(ManagedLayers({0, 1}), spec.num_kv_heads, slots_per_head);
    map.AddSequence(0, kSequenceSlots);
    return map;
  }
  v1::RecallRequest Request() const {
    v1::RecallRequest request;
    request.set_session_id(1);
    request.set_epoch(1);
    request.set_exchange(1);
    LanesToProto(LanesOf(wants), Map(), &request);
    return request;
  }

  KvSpec spec;
  uint32_t slots_per_head = 4;
  std::vector<LayerWant> wants = {
      {.layer = 0,
       .query = {1, 2, 3, 4, 5, 6, 7, 8},
       .candidates = {{.end_page = 9}},
       .num_pages = 3},
      {.layer = 1, .pages = {{0, 2}, {1}}},
  };
};

}  // namespace quire::fuzz

#endif  // QUIRE_TESTS_FUZZ_RECALL_SHAPE_H_
