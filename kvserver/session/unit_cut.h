// SPDX-License-Identifier: Apache-2.0
//
// UnitCut: makes of a unit what a session sends of it. The values of a unit are sent with the
// checksum that they must have by the unit's own: the store has that of the whole, and the keys,
// which stay here, are read for theirs. So a byte of either that has changed since it was stored
// is noticed by whoever takes the values, as with whole units. Immutable.
#ifndef QUIRE_KVSERVER_SESSION_UNIT_CUT_H_
#define QUIRE_KVSERVER_SESSION_UNIT_CUT_H_

#include <cstdint>
#include <utility>

#include "common/base/checksum.h"
#include "kvserver/store/unit.h"
#include "quire/kv_spec.h"
#include "quire/layout.h"

namespace quire::kvserver {

class UnitCut {
 public:
  UnitCut(const KvSpec& spec, UnitPart part)
      : offset_(PartOffsetBytes(spec, part)), suffix_(quire::UnitBytes(spec, part)) {}

  /// `whole` is one of the spec.
  OutboundBytes Of(UnitBytes whole) const {
    OutboundBytes unit = std::move(whole).ToSend();
    if (offset_ == 0) return unit;
    const uint32_t before = Crc32c(unit.slice.bytes.first(offset_));
    unit.crc32c = suffix_.Of(unit.crc32c, before);
    unit.slice.bytes = unit.slice.bytes.subspan(offset_);
    return unit;
  }

 private:
  const uint64_t offset_;  ///< Where what is sent begins.
  const Crc32cSuffix suffix_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_UNIT_CUT_H_
