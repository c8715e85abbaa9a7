// SPDX-License-Identifier: Apache-2.0
//
// Bootstrap: the confidence interval of a mean over samples. Pure functions; the same seed gives
// the same intervals on every machine.
#ifndef QUIRE_BENCH_ANSWERS_BOOTSTRAP_H_
#define QUIRE_BENCH_ANSWERS_BOOTSTRAP_H_

#include <cstdint>
#include <span>

namespace quire::bench {

/// A mean and the ends of its 95 % interval.
struct Estimate {
  double mean = 0;
  double low = 0;
  double high = 0;
};

/// The mean of `values` with its percentile bootstrap interval. It resamples `values` with
/// replacement `resamples` times. 2.5 % of the resampled means lie below `low`, and as many above
/// `high`. All zero for no values. For a paired difference pass the differences of pairs. REQUIRES:
/// resamples > 0.
Estimate BootstrapMean(std::span<const double> values, uint32_t resamples, uint64_t seed);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_ANSWERS_BOOTSTRAP_H_
