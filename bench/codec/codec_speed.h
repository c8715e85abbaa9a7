// SPDX-License-Identifier: Apache-2.0
//
// How fast a codec runs on one core against memcpy of the same bytes. All units are encoded, then
// decoded, then copied, so that each comes from where a working set of that size lies.
#ifndef QUIRE_BENCH_CODEC_CODEC_SPEED_H_
#define QUIRE_BENCH_CODEC_CODEC_SPEED_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "kvserver/store/codec/codec.h"
#include "quire/status.h"

namespace quire::bench {

/// Bytes of decoded units a second; 10^9 bytes are one GB.
struct CodecSpeed {
  double encode_gb_per_s = 0;
  double decode_gb_per_s = 0;
  double memcpy_gb_per_s = 0;
};

/// Encodes, decodes and copies `units` ([n][unit bytes], at least one) in batches of about 1 MiB,
/// `rounds` (1 or more) times over, without checksums. Of each the median batch.
StatusOr<CodecSpeed> MeasureCodecSpeed(const KvSpec& spec, kvserver::CodecId codec,
                                       std::span<const std::byte> units, uint32_t rounds);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_CODEC_CODEC_SPEED_H_
