// SPDX-License-Identifier: Apache-2.0
//
// Comparison: every way of moving the same scattered units, ours, raw and the rivals', in turns.
// A round moves half of a document. Thread-safety: none.
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
#include "quire/clock.h"
#include "quire/status.h"

namespace quire::bench {

/// How large a document has to be: a round, which reads half of it, is of twice the cache. Every
/// contender has its own copy at the same time. In documents: the server 1; the source and the
/// destination of the raw programs 1.5; slots of our transports 1.5; the raw gRPC server 1; Redis,
/// whose allocator rounds up, 2; Mooncake's segment 2, what it is filled from 1, and its reader
/// 0.5.
inline constexpr WorkingSetNeeds kDocumentNeeds = {.caches = 4,
                                                   .least_bytes = uint64_t{512} << 20,
                                                   .step_bytes = uint64_t{64} << 20,
                                                   .copies = 11,
                                                   .besides_bytes = uint64_t{2} << 30};

struct TransportBenchOptions {
  std::string directory;             ///< For servers and their data; what was made is removed.
  std::string mooncake_environment;  ///< Python environment of Mooncake; empty: not compared.
  uint64_t document_bytes = 0;       ///< A multiple of kDocumentNeeds.step_bytes, not 0.
  /// Times that every server and client is started anew: how fast the copies of a process are to
  /// and from a socket is settled when it starts, by the pages that it is given.
  uint32_t sets = 3;
  uint32_t rounds = 5;  ///< Of a set.
  uint32_t empty_recalls = 2000;
  uint32_t step_recalls = 1000;        ///< Of a decode step's size, by every contender and tenant.
  std::vector<std::string> ways = {};  ///< By the names of the figures; all when empty.

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
  TransportTurns in_order = {};                    ///< With "shm_contiguous" beside "shm".
  TransportTurns empty_recalls = {};               ///< By transport; of no round.
  std::map<std::string, std::string> absent = {};  ///< Contender, and why it could not be compared.
  /// By transport: what the connection says.
  std::map<std::string, std::string> details = {};
  /// By contender: of reads over several connections.
  std::map<std::string, Redis::ThreadUse> redis_threads = {};
  std::map<std::string, CpuUse> cpu = {};  ///< By contender.
  /// By program: of the TCP connections that it sent units on (TcpSenders). All that the benchmark
  /// sends itself, as the raw programs of UCX do, is "this_program".
  std::map<std::string, std::string> congestion_controls = {};

  /// How fast `contender` is, of the speed of `limit`; nullopt unless both took part in every set.
  static std::optional<double> Ratio(const TransportTurns& turns, const std::string& contender,
                                     const std::string& limit);
};

StatusOr<TransportFigures> CompareTransports(const TransportBenchOptions& options,
                                             uint64_t unit_bytes);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_TRANSPORT_COMPARISON_H_
