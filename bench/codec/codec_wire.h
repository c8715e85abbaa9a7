// SPDX-License-Identifier: Apache-2.0
//
// CodecWire: what a codec saves between server and worker. Ten documents of random pages are stored
// in a codec and read in one session, placed and verified, over each transport that there is. The
// rivals are the same pages stored as f16, and decoding at the server.
#ifndef QUIRE_BENCH_CODEC_CODEC_WIRE_H_
#define QUIRE_BENCH_CODEC_CODEC_WIRE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "bench/benchmark.h"
#include "quire/clock.h"
#include "quire/status.h"
#include "quire/unit_codec.h"

namespace quire::bench {

/// One way of reading over one transport.
struct WireFigures {
  std::string transport;
  UnitCodec stored = UnitCodec::kRaw;
  bool decoded_by_server = false;
  uint64_t reuse_bytes = 0;  ///< Payload of all pages of ten documents.
  Duration reuse_time = {};  ///< Median, from the request until all units are placed.
  uint64_t step_bytes = 0;   ///< Payload of one step of a layer.
  Duration step_time = {};   ///< Median
};

/// Figures of raw, int8 and int4 documents over shm, grpc and ucx, medians of `rounds` reads.
/// Transports that cannot be had here are left out. Data goes below `data_dir`; a temporary
/// directory when empty.
StatusOr<std::vector<WireFigures>> MeasureCodecWire(const std::string& data_dir, uint32_t rounds);

/// Adds keys of the figures to the report: CODEC_wire_vs_f16, and times by transport.
void AddCodecWire(const std::vector<WireFigures>& figures, cli::Json* json);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_CODEC_CODEC_WIRE_H_
