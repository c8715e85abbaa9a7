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

#include "kvserver/session/digest_holder.h"
#include "kvserver/session/server_lane_map.h"
#include "quire/kv_spec.h"
#include "quire/layout.h"
#include "quire/status.h"

namespace quire::kvserver {

struct SessionShape {
  static constexpr uint32_t kMaxSequences = 256;
  static constexpr uint32_t kMaxMembers = 64;  ///< Of one sequence.
  static constexpr uint32_t kMaxSlotsPerHead = 65536;

  std::string tenant;
  KvSpec spec;
  uint32_t slots_per_head = 0;  ///< 1..kMaxSlotsPerHead; the most that a sequence may have.
  std::vector<uint32_t> managed_layers;          ///< Distinct layers of the spec, at least one.
  std::optional<HeldDigests> hold_digests = {};  ///< Of every sequence, from its start.
  UnitPart part = UnitPart::kWhole;              ///< What is sent of a unit, at least a byte.

  uint32_t num_managed() const { return static_cast<uint32_t>(managed_layers.size()); }
  /// Slots that a lane has room for in a landing, however few its sequence has.
  uint64_t lane_slots() const { return uint64_t{spec.num_kv_heads} * slots_per_head; }
  /// The slots per head of a sequence that asks for so many: all of them for 0. INVALID_ARGUMENT
  /// for more than there are.
  StatusOr<uint32_t> SequenceSlots(uint32_t asked) const {
    if (asked == 0) return slots_per_head;
    if (asked <= slots_per_head) return asked;
    return InvalidArgument("slots_per_head of a sequence is ", asked, ": the session has ",
                           slots_per_head, "; ask for fewer, or open a session with more");
  }
  /// Bytes of the resident maps of a sequence that has so many slots per head.
  uint64_t sequence_map_bytes(uint32_t sequence_slots) const {
    return num_managed() * ServerLaneMap::Bytes(spec.num_kv_heads, sequence_slots);
  }
  /// Of what is sent of a unit, and of a slot in a landing.
  uint64_t unit_bytes() const { return quire::UnitBytes(spec, part); }
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_SESSION_SHAPE_H_
