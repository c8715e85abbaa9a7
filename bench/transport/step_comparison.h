// SPDX-License-Identifier: Apache-2.0
//
// CompareSteps: times of recalls of a decode step's size, against Redis and Mooncake Store with as
// many bytes, in turns in one run. Every contender has blocks of consecutive recalls, as a decoder
// with a persistent connection has. CompareTenants: the same recalls by several tenants of one
// server at once. Thread-safety: none.
#ifndef QUIRE_BENCH_TRANSPORT_STEP_COMPARISON_H_
#define QUIRE_BENCH_TRANSPORT_STEP_COMPARISON_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "bench/transport/comparison.h"
#include "common/base/clock.h"
#include "common/base/status.h"

namespace quire::bench {

inline constexpr uint64_t kStepUnitBytes = 16 << 10;
/// Units of a recall.
inline constexpr uint32_t kStepUnits[] = {16, 32, 64};
inline constexpr uint32_t kTenants = 4;
inline constexpr uint32_t kTenantUnits = 64;  ///< Units of each tenant's recall.

/// Times of recalls of one size.
struct StepFigures {
  uint32_t units = 0;
  std::map<std::string, std::vector<Duration>> times = {};  ///< By contender.
  std::map<std::string, std::string> absent = {};           ///< Reason, by absent contender.
};

/// Compares contenders at every size of kStepUnits, with options.step_recalls recalls each.
StatusOr<std::vector<StepFigures>> CompareSteps(const TransportBenchOptions& options);

/// Results of the tenants of one server over one transport. Each tenant has a session and a
/// document of its own, and one recall in flight at a time.
struct TenantFigures {
  std::string transport;
  std::string absent = {};            ///< Why there are no figures.
  double alone_bytes_per_second = 0;  ///< Rate of one tenant while the others rest.
  /// Rate of each tenant, until the first of them has made all its recalls.
  std::vector<double> bytes_per_second = {};
  std::vector<Duration> times = {};  ///< Times of all tenants' recalls in that time.

  double total_bytes_per_second() const;
  /// Ratio of the slowest tenant's rate to the fastest one's.
  double slowest_vs_fastest() const;
};

StatusOr<std::vector<TenantFigures>> CompareTenants(const TransportBenchOptions& options);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_TRANSPORT_STEP_COMPARISON_H_
