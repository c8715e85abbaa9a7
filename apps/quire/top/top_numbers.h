// SPDX-License-Identifier: Apache-2.0
//
// TopNumbers: what `quire top` shows, computed from what a server told at two moments. Rates and
// ratios are of the time between them, and absent before the second. Pure functions.
#ifndef QUIRE_APPS_QUIRE_TOP_TOP_NUMBERS_H_
#define QUIRE_APPS_QUIRE_TOP_TOP_NUMBERS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quire/clock.h"
#include "quire/server_stats.h"

namespace quire::cli {

/// The words of a server at one moment.
struct TopSample {
  TimePoint at;
  ServerStats stats;
  std::vector<SlowCall> slow = {};
};

/// A tier and what is in it.
struct TopTier {
  uint64_t used = 0;
  uint64_t limit = 0;
};

struct TopMethod {
  std::string name;  ///< "Session/Recall"
  uint64_t calls = 0;
  std::optional<double> per_second = {};
  Duration median{0};
  Duration ninety_nine{0};
};

struct TopTenant {
  std::string name;
  uint64_t dram_bytes = 0;
  uint64_t ssd_bytes = 0;
  uint64_t sessions = 0;
  uint64_t waiting = 0;
  uint64_t refused = 0;
};

struct TopNumbers {
  TopTier dram, ssd;
  uint64_t pinned = 0;  ///< Bytes of DRAM.
  uint64_t cached = 0;  ///< Bytes on SSD of segments without a document.
  std::optional<double> calls_per_second, failed_per_second;
  std::optional<double> hit_ratio, hit_ratio_in_all;      ///< Units found in DRAM.
  std::optional<double> moved_ratio, moved_ratio_in_all;  ///< Share of the bytes asked for.
  std::optional<double> asked_per_second, moved_per_second;
  std::optional<Duration> recall_median, recall_ninety_nine;
  uint64_t running = 0, waiting = 0, refused = 0;
  uint64_t sessions = 0, contexts = 0;
  uint64_t scrubbed_bytes = 0, scrub_damaged = 0, scrub_rounds = 0;
  uint64_t damaged = 0, repaired = 0;
  std::vector<TopMethod> methods;  ///< Those that took most time first.
  std::vector<TopTenant> tenants;
};

/// `before` is null for the first sample, and after a restart of the server.
TopNumbers NumbersOf(const TopSample* before, const TopSample& now);

/// Times of `now` since `before`, which may be null.
LatencyCounts TimesSince(const LatencyCounts* before, const LatencyCounts& now);
/// The time that the share `q` of all times does not exceed, as finely as they were counted;
/// nullopt when there are none.
std::optional<Duration> Quantile(const LatencyCounts& times, double q);

}  // namespace quire::cli

#endif  // QUIRE_APPS_QUIRE_TOP_TOP_NUMBERS_H_
