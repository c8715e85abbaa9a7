// SPDX-License-Identifier: Apache-2.0
//
// Lane records: the packed arrays of LanePlacement.units and LaneMap.slots. On the wire they are
// little endian, one array after the other. Here they are vectors, which keep their memory between
// uses. session.proto defines the numbers; code that knows the session checks them. Thread-safety:
// pure functions and value types.
#ifndef QUIRE_COMMON_WIRE_LANE_RECORDS_H_
#define QUIRE_COMMON_WIRE_LANE_RECORDS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace quire::wire {

/// The units placed in a lane, in payload order. All arrays have the same length.
struct LaneUnits {
  std::vector<uint32_t> slots = {};
  std::vector<uint32_t> generations = {};
  std::vector<uint32_t> pages = {};
  std::vector<int32_t> replaced = {};
  std::vector<uint32_t> crc32c = {};

  size_t size() const { return slots.size(); }
  void Resize(size_t units);

  friend bool operator==(const LaneUnits&, const LaneUnits&) = default;
};

/// Views of the arrays of LaneUnits.
struct LaneUnitsView {
  std::span<const uint32_t> slots, generations, pages;
  std::span<const int32_t> replaced;
  std::span<const uint32_t> crc32c;
};

/// Bytes of one unit's record.
inline constexpr size_t kLaneUnitBytes = 5 * sizeof(uint32_t);

/// Replaces `*out` by LanePlacement.units for `units`.
void EncodeLaneUnits(const LaneUnitsView& units, std::string* out);
inline void EncodeLaneUnits(const LaneUnits& units, std::string* out) {
  EncodeLaneUnits(
      LaneUnitsView{units.slots, units.generations, units.pages, units.replaced, units.crc32c},
      out);
}
/// Replaces `*units` by the `count` units in `bytes`. INVALID_ARGUMENT, leaving `*units` unchanged,
/// unless the bytes are exactly `count` units.
[[nodiscard]] Status DecodeLaneUnits(std::string_view bytes, size_t count, LaneUnits* units);

/// The slots of a lane, [n_kv][slots_per_head of its sequence]. Both arrays have the same length.
struct LaneSlots {
  std::vector<int32_t> pages = {};
  std::vector<uint32_t> generations = {};

  friend bool operator==(const LaneSlots&, const LaneSlots&) = default;
};

/// Replaces `*out` by LaneMap.slots for slots that hold `pages` under `generations`, of the same
/// length.
void EncodeLaneSlots(std::span<const int32_t> pages, std::span<const uint32_t> generations,
                     std::string* out);
/// Replaces `*slots` by the `count` slots in `bytes`. INVALID_ARGUMENT, leaving `*slots` unchanged,
/// unless the bytes are exactly `count` slots.
[[nodiscard]] Status DecodeLaneSlots(std::string_view bytes, size_t count, LaneSlots* slots);

}  // namespace quire::wire

#endif  // QUIRE_COMMON_WIRE_LANE_RECORDS_H_
