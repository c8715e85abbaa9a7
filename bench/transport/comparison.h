// SPDX-License-Identifier: Apache-2.0
//
// Comparison: every way of moving the same scattered units, ours, raw and the rivals', in turns.
// A round moves half of a document; ratios are medians over the rounds. Thread-safety: none.
#ifndef QUIRE_BENCH_TRANSPORT_COMPARISON_H_
#define QUIRE_BENCH_TRANSPORT_COMPARISON_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/benchmark.h"
#include "common/base/status.h"

namespace quire::bench {

struct TransportBenchOptions {
  std::string directory;             ///< For servers and their data; what was made is removed.
  std::string mooncake_environment;  ///< Python environment of Mooncake; empty: not compared.
  uint64_t document_bytes = 512ull << 20;
  uint32_t rounds = 21;
  uint32_t empty_recalls = 2000;
  std::vector<std::string> ways = {};  ///< By the names of the figures; all when empty.

  bool Wants(const std::string& way) const {
    return ways.empty() || std::find(ways.begin(), ways.end(), way) != ways.end();
  }
};

/// What one size of units came to.
struct TransportFigures {
  uint64_t unit_bytes = 0;
  std::map<std::string, double> ratios;    ///< "shm_vs_memcpy"
  std::map<std::string, double> gb_per_s;  ///< By contender.
  std::optional<double> shm_zero_copy_units_per_s;
  /// By transport: p50 and p99 of an empty recall, in us.
  std::map<std::string, std::pair<double, double>> empty_recall_us;
  std::map<std::string, std::string> absent;   ///< Contender, and why it could not be compared.
  std::map<std::string, std::string> details;  ///< By transport: what the connection says.
};

StatusOr<TransportFigures> CompareTransports(const TransportBenchOptions& options,
                                             uint64_t unit_bytes);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_TRANSPORT_COMPARISON_H_
