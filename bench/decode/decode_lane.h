// SPDX-License-Identifier: Apache-2.0
//
// DecodeLane: the sequences of one way to get pages, decoded together over one document, a token of
// each at a time. One sequence runs alone (worker::Sequence), and its recalls come in pieces; more
// are a worker::Batch, which recalls a layer for all of them with one message, or with two where
// some heads block and others do not, in whole parts. The same number of sequences has the same
// tokens, whatever the way.
//
// All sequences continue the one document. Those of a batch share its digests; slots, recalls and
// whatever else a policy keeps are each one's own.
//
// Thread-safety: none. Ownership: what a lane is opened with outlives it.
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

/// How a step gets its pages.
struct DecodeWay {
  std::string name;
  worker::RetrievalOptions retrieval = {};
  bool rows = false;  ///< Recalls bring rows, not units (row_sessions.h).
  bool kept = false;  ///< Units that came once are placed from the worker's memory (0018).
};

/// Engines of one model. After `kept`, for ways with rows only.
struct DecodeEngines {
  const worker::Engine* units = nullptr;
  const worker::Engine* kept = nullptr;  ///< Has a host tier, for ways that keep units.
  const worker::Engine* rows = nullptr;  ///< Has RowSessions, for sequences that run alone.
  Client* client = nullptr;
  const RowDocument* row_document = nullptr;
};

/// What all sequences of a lane did.
struct DecodeTotals {
  double stall_seconds = 0;  ///< Waiting for recalls and taking them in.
  uint64_t units_selected = 0;
  uint64_t units_recalled = 0;
  uint64_t bytes_recalled = 0;
  uint64_t units_from_host = 0;   ///< Selected, and placed from the worker's memory.
  uint64_t late_recalls = 0;      ///< Layers that went on without what was late.
  uint64_t late_corrections = 0;  ///< Those of them whose query had turned.
  uint64_t blocking_heads = 0;
  uint64_t recalls = 0;   ///< Each of one layer of one sequence.
  uint64_t messages = 0;  ///< That asked for them.
  /// In the last step, by all sequences; a mean over layers and KV heads. No difference is taken,
  /// and no sum.
  double attended_tokens = 0;

  DecodeTotals operator-(const DecodeTotals& before) const;
  DecodeTotals& operator+=(const DecodeTotals& more);
};

class DecodeLane {
 public:
  /// Opens `sequences` over `document`, one or more. Opening those of a batch is part of its first
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
