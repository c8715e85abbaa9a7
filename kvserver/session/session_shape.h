// SPDX-License-Identifier: Apache-2.0
//
// SessionShape: what is fixed when a session is opened: whose it is, the spec, the slots, which
// layers have lanes, and how much of a unit is sent. A plain value.
#ifndef QUIRE_KVSERVER_SESSION_SESSION_SHAPE_H_
#define QUIRE_KVSERVER_SESSION_SESSION_SHAPE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/page/kv_spec.h"
#include "common/page/layout.h"
#include "kvserver/session/held_digests.h"
#include "kvserver/session/resident_map.h"

namespace quire::kvserver {

struct SessionShape {
  static constexpr uint32_t kMaxSequences = 256;
  static constexpr uint32_t kMaxMembers = 64;  ///< Of one sequence.
  static constexpr uint32_t kMaxSlotsPerHead = 65536;

  std::string tenant;
  KvSpec spec;
  uint32_t slots_per_head = 0;           ///< 1..kMaxSlotsPerHead
  std::vector<uint32_t> managed_layers;  ///< Distinct layers of the spec, at least one.
  std::optional<HeldDigestsShape> hold_digests = {};  ///< Of every sequence, from its start.
  UnitPart part = UnitPart::kWhole;                   ///< What is sent of a unit, at least a byte.

  uint32_t num_managed() const { return static_cast<uint32_t>(managed_layers.size()); }
  /// Slots of one lane.
  uint64_t lane_slots() const { return uint64_t{spec.num_kv_heads} * slots_per_head; }
  /// Bytes of the resident maps of one sequence.
  uint64_t sequence_map_bytes() const {
    return num_managed() * ResidentMap::Bytes(spec.num_kv_heads, slots_per_head);
  }
  /// Of what is sent of a unit, and of a slot in a landing.
  uint64_t unit_bytes() const { return quire::UnitBytes(spec, part); }
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_SESSION_SHAPE_H_
