// SPDX-License-Identifier: Apache-2.0
//
// UnitSizes: bytes of the units that a session sends. Both ends compute them from the same three
// facts: the spec, the part that is sent, and the codecs that the receiver decodes. A codec whose
// units are not smaller than raw ones is not used. A raw unit is thus the largest, and a slot of a
// landing has its size. Thread-safety: immutable.
#ifndef QUIRE_COMMON_PAGE_UNIT_SIZES_H_
#define QUIRE_COMMON_PAGE_UNIT_SIZES_H_

#include <cstdint>

#include "quire/kv_spec.h"
#include "quire/layout.h"
#include "quire/unit_codec.h"

namespace quire {

class UnitSizes {
 public:
  /// The receiver decodes `accepted` codecs. Values alone are always raw.
  UnitSizes(const KvSpec& spec, UnitPart part, const CodecSet& accepted) {
    bytes_[Index(UnitCodec::kRaw)] = UnitBytes(spec, part);
    if (part != UnitPart::kWhole) return;
    for (const UnitCodec codec : {UnitCodec::kFp8E4M3, UnitCodec::kInt8, UnitCodec::kInt4}) {
      const uint64_t bytes = UnitBytes(spec, codec);
      if (!accepted.Has(codec) || bytes >= raw()) continue;
      bytes_[Index(codec)] = bytes;
      sent_.Add(codec);
    }
  }

  /// Bytes of a unit in `codec`; 0 for a codec that is not sent.
  uint64_t Of(UnitCodec codec) const { return sent_.Has(codec) ? bytes_[Index(codec)] : 0; }
  uint64_t raw() const { return bytes_[Index(UnitCodec::kRaw)]; }
  /// Codecs of units that are sent.
  const CodecSet& sent() const { return sent_; }
  bool only_raw() const { return sent_ == CodecSet(); }

 private:
  static constexpr size_t Index(UnitCodec codec) { return static_cast<size_t>(codec) - 1; }
  uint64_t bytes_[static_cast<size_t>(UnitCodec::kInt4)] = {};
  CodecSet sent_;
};

}  // namespace quire

#endif  // QUIRE_COMMON_PAGE_UNIT_SIZES_H_
