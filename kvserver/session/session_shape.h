// SPDX-License-Identifier: Apache-2.0
//
// SessionShape: the constants of a session: tenant, spec, slots, managed layers, and the part of a
// unit that is sent. A plain value.
#ifndef QUIRE_KVSERVER_SESSION_SESSION_SHAPE_H_
#define QUIRE_KVSERVER_SESSION_SESSION_SHAPE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/page/slot_map.h"
#include "kvserver/session/digest_holder.h"
#include "quire/kv_spec.h"
#include "quire/layout.h"
#include "quire/status.h"
#include "quire/unit_codec.h"

namespace quire::kvserver {

struct SessionShape {
  static constexpr uint32_t kMaxSequences = 256;
  static constexpr uint32_t kMaxMembers = 64;  ///< Members of one sequence.
  static constexpr uint32_t kMaxSlotsPerHead = 65536;

  std::string tenant;
  KvSpec spec;
  uint32_t slots_per_head = 0;           ///< 1..kMaxSlotsPerHead; most slots of a sequence.
  std::vector<uint32_t> managed_layers;  ///< Distinct layers of the spec, at least one.
  /// Digests held by every sequence from its start.
  std::optional<HeldDigests> hold_digests = {};
  UnitPart part = UnitPart::kWhole;  ///< Part of a unit that is sent, at least a byte.
  CodecSet codecs = {};              ///< Codecs that the worker decodes; with whole units only.

  uint32_t num_managed() const { return static_cast<uint32_t>(managed_layers.size()); }
  /// Slots of a lane in a landing, however few its sequence has.
  uint64_t lane_slots() const { return uint64_t{spec.num_kv_heads} * slots_per_head; }
  /// Slots per head of a sequence that asks for `asked`; 0 asks for all. INVALID_ARGUMENT for more
  /// than there are.
  StatusOr<uint32_t> SequenceSlots(uint32_t asked) const {
    if (asked == 0) return slots_per_head;
    if (asked <= slots_per_head) return asked;
    return InvalidArgument("slots_per_head of a sequence is ", asked, ": the session has ",
                           slots_per_head, "; ask for fewer, or open a session with more");
  }
  /// Bytes of the resident maps of a sequence with `sequence_slots` slots per head.
  uint64_t sequence_map_bytes(uint32_t sequence_slots) const {
    return num_managed() * SlotMap::Bytes(spec.num_kv_heads, sequence_slots);
  }
  /// Most bytes that are sent of a unit, and size of a slot in a landing.
  uint64_t unit_bytes() const { return quire::UnitBytes(spec, part); }
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_SESSION_SHAPE_H_
