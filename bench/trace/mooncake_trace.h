// SPDX-License-Identifier: Apache-2.0
//
// Reads the traces that Mooncake publishes: JSON lines, one request each, such as
//
//   {"timestamp": 0, "input_length": 1300, "output_length": 52, "hash_ids": [0, 14, 15]}
//
// - timestamp is in milliseconds.
// - hash_ids name the blocks of 512 tokens of the prompt, each together with all before it. The
//   last block is short. In traces that omit it, its tokens count as new.
// - output_length is checked and not used, since generation is not replayed.
//
// Empty lines are skipped, further fields ignored, requests sorted by time.
#ifndef QUIRE_BENCH_TRACE_MOONCAKE_TRACE_H_
#define QUIRE_BENCH_TRACE_MOONCAKE_TRACE_H_

#include <string>
#include <string_view>

#include "bench/trace/trace.h"
#include "common/base/status.h"

namespace quire::bench {

inline constexpr uint32_t kMooncakeBlockTokens = 512;

/// `name`, that of a file, starts every error, which also names the line and the field.
StatusOr<Trace> ParseMooncakeTrace(std::string_view text, const std::string& name);
/// NOT_FOUND for a missing file, RESOURCE_EXHAUSTED for one over 1 GiB.
StatusOr<Trace> ReadMooncakeTrace(const std::string& path);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_TRACE_MOONCAKE_TRACE_H_
