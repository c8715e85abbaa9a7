// SPDX-License-Identifier: Apache-2.0
//
// Trace: which prompts came when, as far as a KV cache sees them: blocks that may be cached, named
// by ids, and tokens that are computed in any case. An id stands for tokens after a given prefix,
// so that the same id is the same KV; a block is of use only with all blocks before it. A block is
// a segment or a whole document, as the trace has it. Plain values.
#ifndef QUIRE_BENCH_TRACE_TRACE_H_
#define QUIRE_BENCH_TRACE_TRACE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace quire::bench {

struct TraceBlock {
  uint64_t id = 0;
  uint32_t tokens = 0;
  uint64_t bytes = 0;
};

struct TraceRequest {
  int64_t arrival_micros = 0;  ///< Since the trace's beginning.
  uint32_t tenant = 0;         ///< Tenants share nothing: their ids are apart.
  std::vector<TraceBlock> blocks = {};
  uint32_t new_tokens = 0;  ///< After the blocks: the question, or a rest that is no block.
};

struct Trace {
  /// For people: where it comes from, its sizes and its seed.
  std::string description = {};
  std::vector<TraceRequest> requests = {};  ///< By arrival.
};

/// What the KV of a token takes: 32 layers of 8 KV heads of 128, K and V of 16 bits.
inline constexpr uint64_t kKvBytesPerToken = 32 * 8 * 128 * 2 * 2;

/// Bytes of a block: whole pages.
constexpr uint64_t KvBytes(uint64_t tokens) {
  constexpr uint64_t kPageTokens = 32;
  return (tokens + kPageTokens - 1) / kPageTokens * kPageTokens * kKvBytesPerToken;
}

/// Bytes of the distinct blocks of a trace: what a cache that holds everything would take.
uint64_t DistinctBytes(const Trace& trace);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_TRACE_TRACE_H_
