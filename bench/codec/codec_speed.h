// SPDX-License-Identifier: Apache-2.0
//
// Speed of a codec on one core against memcpy of the same bytes. All units are encoded, then
// decoded, then copied. Each therefore comes from the cache level or memory that holds a working
// set of that size.
#ifndef QUIRE_BENCH_CODEC_CODEC_SPEED_H_
#define QUIRE_BENCH_CODEC_CODEC_SPEED_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/status.h"
#include "kvserver/store/codec/codec.h"

namespace quire::bench {

/// Speeds in GB of decoded units per second; 1 GB is 10^9 bytes.
struct CodecSpeed {
  double encode_gb_per_s = 0;
  double decode_gb_per_s = 0;
  double memcpy_gb_per_s = 0;
};

/// Encodes, decodes and copies `units` ([n][unit bytes], at least one) in batches of about 1 MiB,
/// `rounds` (at least 1) times, without checksums. Returns the median batch of each.
StatusOr<CodecSpeed> MeasureCodecSpeed(const KvSpec& spec, kvserver::CodecId codec,
                                       std::span<const std::byte> units, uint32_t rounds);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_CODEC_CODEC_SPEED_H_
