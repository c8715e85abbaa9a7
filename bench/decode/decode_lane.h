// SPDX-License-Identifier: Apache-2.0
//
// DecodeLane: sequences that use one way to get pages, decoded together over one document, one
// token each per step. A single sequence runs alone (worker::Sequence), and its recalls come in
// pieces. Several are a worker::Batch. It recalls a layer for all of them with one message in whole
// parts, or with two if only some heads block. The number of sequences alone decides the tokens,
// whatever the way.
//
// All sequences continue the one document. Those of a batch share its digests; slots, recalls and
// other policy state are separate.
//
// Thread-safety: none.
// Ownership: the arguments of Open outlive the lane.
#ifndef QUIRE_BENCH_DECODE_DECODE_LANE_H_
#define QUIRE_BENCH_DECODE_DECODE_LANE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "bench/decode/row_sessions.h"
#include "gpuworker/engine/engine.h"
#include "quire/client.h"
#include "quire/status.h"

namespace quire::bench {

/// One way to get the pages of a step.
struct DecodeWay {
  std::string name;
  worker::RetrievalOptions retrieval = {};
  bool rows = false;  ///< Recalls bring rows, not units (row_sessions.h).
  /// Recalled units are kept and placed from the worker's memory (docs/design/0018).
  bool kept = false;
};

/// Engines of one model. `kept` and `rows` serve the ways that need them.
struct DecodeEngines {
  const worker::Engine* units = nullptr;
  /// Has a host tier, for ways that keep units; may be null.
  const worker::Engine* kept = nullptr;
  /// Has RowSessions, for sequences that run alone; may be null.
  const worker::Engine* rows = nullptr;
  Client* client = nullptr;
  const RowDocument* row_document = nullptr;
};

/// Totals over all sequences of a lane.
struct DecodeTotals {
  double stall_seconds = 0;  ///< Time waiting for recalls and placing them.
  uint64_t units_selected = 0;
  uint64_t units_recalled = 0;
  uint64_t bytes_recalled = 0;
  uint64_t units_from_host = 0;   ///< Selected units placed from the worker's memory.
  uint64_t late_recalls = 0;      ///< Layers that proceeded without late units.
  uint64_t late_corrections = 0;  ///< Late layers whose query had turned.
  uint64_t blocking_heads = 0;
  uint64_t recalls = 0;   ///< Recalls of one layer of one sequence.
  uint64_t messages = 0;  ///< Messages that requested recalls.
  worker::DeviceUse used = {};
  /// Tokens attended to in the last step by all sequences, as a mean over layers and KV heads. It
  /// is neither summed nor subtracted.
  double attended_tokens = 0;

  DecodeTotals operator-(const DecodeTotals& before) const;
  DecodeTotals& operator+=(const DecodeTotals& more);
};

class DecodeLane {
 public:
  /// Opens `sequences` (at least one) over `document`. A batch opens its sequences in its first
  /// step.
  static StatusOr<std::unique_ptr<DecodeLane>> Open(const DecodeEngines& engines,
                                                    const DocumentName& document,
                                                    const DecodeWay& way, uint32_t sequences);
  virtual ~DecodeLane() = default;

  /// Decodes a token of every sequence. Errors name the sequence.
  [[nodiscard]] virtual Status Step() = 0;
  virtual DecodeTotals Totals() const = 0;
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_DECODE_DECODE_LANE_H_
