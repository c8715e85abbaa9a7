// SPDX-License-Identifier: Apache-2.0
//
// UnitCut: cuts the sent part out of a unit, and knows the sizes of what is sent. Sent values carry
// a checksum derived from the stored one of the whole unit and a fresh one of the keys. A change of
// any byte of either since it was stored is thus detected by the receiver, as with whole units.
// Immutable.
#ifndef QUIRE_KVSERVER_SESSION_UNIT_CUT_H_
#define QUIRE_KVSERVER_SESSION_UNIT_CUT_H_

#include <cstdint>
#include <utility>

#include "common/base/memory/checksum.h"
#include "common/page/unit_sizes.h"
#include "kvserver/store/unit.h"
#include "quire/kv_spec.h"
#include "quire/layout.h"

namespace quire::kvserver {

class UnitCut {
 public:
  UnitCut(const KvSpec& spec, UnitPart part, const CodecSet& accepted)
      : sizes_(spec, part, accepted),
        offset_(PartOffsetBytes(spec, part)),
        suffix_(quire::UnitBytes(spec, part)) {}

  const UnitSizes& sizes() const { return sizes_; }
  /// REQUIRES: `whole` is a unit of the spec, in a codec that is sent.
  OutboundBytes Of(UnitBytes whole) const {
    OutboundBytes unit = std::move(whole).ToSend();
    if (offset_ == 0) return unit;
    const uint32_t before = Crc32c(unit.slice.bytes.first(offset_));
    unit.crc32c = suffix_.Of(unit.crc32c, before);
    unit.slice.bytes = unit.slice.bytes.subspan(offset_);
    return unit;
  }

 private:
  const UnitSizes sizes_;
  const uint64_t offset_;  ///< Start of the sent part.
  const Crc32cSuffix suffix_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_UNIT_CUT_H_
