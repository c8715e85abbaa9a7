// SPDX-License-Identifier: Apache-2.0
//
// Trace: arrival and content of prompts as a KV cache sees them: ids of blocks that may be cached,
// and tokens that are always computed. An id stands for tokens after a given prefix, so the same id
// is the same KV. A block is useful only with all blocks before it. A block is a segment or a whole
// document, depending on the trace. Plain values.
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
  int64_t arrival_micros = 0;  ///< Time since the trace's beginning.
  uint32_t tenant = 0;         ///< Tenants share nothing: their ids differ.
  std::vector<TraceBlock> blocks = {};
  uint32_t new_tokens = 0;  ///< Tokens after the blocks: the question, or a rest that is no block.
};

struct Trace {
  /// For people: origin, sizes and seed.
  std::string description = {};
  std::vector<TraceRequest> requests = {};  ///< By arrival.
};

/// Bytes of KV per token: 32 layers of 8 KV heads of 128, K and V of 16 bits.
inline constexpr uint64_t kKvBytesPerToken = 32 * 8 * 128 * 2 * 2;

/// Bytes of a block: whole pages.
constexpr uint64_t KvBytes(uint64_t tokens) {
  constexpr uint64_t kPageTokens = 32;
  return (tokens + kPageTokens - 1) / kPageTokens * kPageTokens * kKvBytesPerToken;
}

/// Bytes of the distinct blocks of a trace: the size of a cache that holds everything.
uint64_t DistinctBytes(const Trace& trace);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_TRACE_TRACE_H_
