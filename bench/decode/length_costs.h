// SPDX-License-Identifier: Apache-2.0
//
// Costs of a decode step as the document grows: time, scoring, stall, bytes and memory, of full
// attention and of two policies. The document's pages are written straight into a server of
// another process, in the form of the store; no model reads them. A shorter document is the first
// pages of the longer ones. Each way runs by itself, and nothing of another is in memory then.
//
// Scoring is timed by itself too, on digests or keys of the same number. FreeKV does it beside the
// step, on a thread of its own.
// Thread-safety: none.
#ifndef QUIRE_BENCH_DECODE_LENGTH_COSTS_H_
#define QUIRE_BENCH_DECODE_LENGTH_COSTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/decode/decode_run.h"
#include "quire/kv_spec.h"
#include "quire/status.h"

namespace quire::bench {

/// Tokens that a run of an agent reads and generates.
inline constexpr uint32_t kAgentContextTokens = 142 << 10;
inline constexpr uint32_t kAgentGeneratedTokens = 444;

struct LengthOptions {
  /// Tokens of the documents, ascending, in whole segments.
  std::vector<uint32_t> lengths = {};
  /// Measures an agent's run too, if a document has kAgentContextTokens or more.
  bool agent = true;
  /// FreeKV's threshold; calibrated at the first length when unset.
  std::optional<float> tau = {};
  std::vector<uint32_t> batches = {1, 4};  ///< Numbers of sequences.
  uint32_t budget_tokens = 2048;
  float drift = 0.15f;  ///< RandomModel::own_share
  DecodeTurns turns = {.warm_up_steps = 1, .turns = 1, .steps_per_turn = 5};
  std::string transport = "shm";
  std::string data_dir = {};  ///< Directory of the server; a temporary directory when empty.
  std::string device = "cpu";
};

/// Costs of one way over one document. Figures per step are of all sequences.
struct LengthCost {
  uint32_t context_tokens = 0;
  uint32_t sequences = 0;
  std::string way = {};
  double step_ms = 0;  ///< Median.
  double p99_ms = 0;
  /// Scoring of all sequences' pages or tokens, one after the other, by itself. 0 for full
  /// attention.
  double scoring_ms = 0;
  double stall_ms = 0;  ///< Waiting for recalls and placing them, in a step.
  double bytes_per_step = 0;
  double blocking_share = 0;  ///< Share of the heads.
  double open_seconds = 0;    ///< Until the first step has run.
  double decode_seconds = 0;  ///< All measured steps.
  uint64_t worker_bytes = 0;  ///< Memory that all sequences take in this process.
  uint64_t server_bytes = 0;  ///< Memory of the pages at the server, and of the keys of a head.
  uint32_t threads = 0;       ///< Number for the model's products, with the faster steps.
  uint64_t steps = 0;         ///< Measured ones.
};

/// A way that did not run.
struct LengthLeftOut {
  uint32_t context_tokens = 0;
  uint32_t sequences = 0;
  std::string way = {};
  std::string why = {};
};

struct LengthCosts {
  KvSpec spec = {};
  uint32_t hidden_size = 0;
  float tau = 0;  ///< FreeKV's threshold.
  std::vector<LengthCost> costs = {};
  /// Runs of an agent's shape: every token that is generated is a step.
  std::vector<LengthCost> agents = {};
  std::vector<LengthLeftOut> left_out = {};
};

/// Runs full attention, FreeKV and SpeContext over every length with every number of sequences.
/// A way that does not fit into the memory that is available is left out. INVALID_ARGUMENT for
/// lengths that do not ascend or are no whole segments.
StatusOr<LengthCosts> MeasureLengths(const LengthOptions& options);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_DECODE_LENGTH_COSTS_H_
