// SPDX-License-Identifier: Apache-2.0
//
// Comparison: every way of moving the same scattered units, ours, raw and the rivals', in turns. A
// round moves half of a document. Thread-safety: none.
#ifndef QUIRE_BENCH_TRANSPORT_COMPARISON_H_
#define QUIRE_BENCH_TRANSPORT_COMPARISON_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/kit/working_set.h"
#include "bench/rivals/raw_ucx.h"
#include "bench/transport/rivals.h"
#include "common/base/clock.h"
#include "common/base/status.h"

namespace quire::bench {

/// Size of a document: a round, which reads half of it, covers twice the cache. All contenders have
/// their own copies at the same time. Their memory, in documents:
/// - the server 1,
/// - source and destination of the raw programs 1.5,
/// - slots of our transports 1.5,
/// - the raw gRPC server 1,
/// - Redis, whose allocator rounds up, 2,
/// - Mooncake's segment 2, its source 1, and its reader 0.5.
inline constexpr WorkingSetNeeds kDocumentNeeds = {.caches = 4,
                                                   .least_bytes = uint64_t{512} << 20,
                                                   .step_bytes = uint64_t{64} << 20,
                                                   .copies = 11,
                                                   .besides_bytes = uint64_t{2} << 30};

struct TransportBenchOptions {
  /// Directory for servers and their data; files are removed afterwards.
  std::string directory;
  std::string mooncake_environment;  ///< Python environment of Mooncake; empty: not compared.
  uint64_t document_bytes = 0;       ///< A multiple of kDocumentNeeds.step_bytes, not 0.
  /// Times that every server and client is started anew. The pages that a process gets at its start
  /// decide the speed of its socket copies.
  uint32_t sets = 3;
  uint32_t rounds = 5;  ///< Rounds of a set.
  uint32_t empty_recalls = 2000;
  /// Recalls of a decode step's size, for every contender and tenant.
  uint32_t step_recalls = 1000;
  /// Names of the contenders to run, as in the figures; empty for all.
  std::vector<std::string> ways = {};

  bool Wants(const std::string& way) const {
    return ways.empty() || std::find(ways.begin(), ways.end(), way) != ways.end();
  }
};

/// Times of turns, by contender. Turn i of every contender belongs to the same round.
using TransportTurns = std::map<std::string, std::vector<Duration>>;

/// CPU time of moving `bytes`, on all processors, summed over every process that took part.
struct CpuUse {
  Duration time = {};
  uint64_t bytes = 0;
};

/// Results of one size of units, over all sets.
struct TransportFigures {
  uint64_t unit_bytes = 0;
  uint64_t units_per_round = 0;
  TransportTurns scattered = {};
  /// Times of rounds in order; "shm_contiguous" runs next to "shm".
  TransportTurns in_order = {};
  /// Times of empty recalls by transport, outside the rounds.
  TransportTurns empty_recalls = {};
  std::map<std::string, std::string> absent = {};  ///< Reason, by absent contender.
  /// Description of the connection, by transport.
  std::map<std::string, std::string> details = {};
  /// By contender, for reads over several connections.
  std::map<std::string, Redis::ThreadUse> redis_threads = {};
  std::map<std::string, CpuUse> cpu = {};  ///< By contender.
  /// Congestion control by program, of the TCP connections that it sent units on (TcpSenders).
  /// Those of the benchmark itself, including the raw UCX programs, are "this_program".
  std::map<std::string, std::string> congestion_controls = {};

  /// Speed of `contender` relative to `limit`; nullopt unless both took part in every set.
  static std::optional<double> Ratio(const TransportTurns& turns, const std::string& contender,
                                     const std::string& limit);
};

StatusOr<TransportFigures> CompareTransports(const TransportBenchOptions& options,
                                             uint64_t unit_bytes);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_TRANSPORT_COMPARISON_H_
