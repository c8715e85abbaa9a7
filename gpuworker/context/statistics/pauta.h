// SPDX-License-Identifier: Apache-2.0
//
// The PauTa criterion (three sigma), one-sided: which exponents are so small that their tokens are
// recomputed (SamKV, arXiv 2508.11661, appendix A.1). The mean and the population's deviation are
// those of all samples, the outliers among them.
// Thread-safety: pure functions. Errors: none.
#ifndef QUIRE_GPUWORKER_CONTEXT_STATISTICS_PAUTA_H_
#define QUIRE_GPUWORKER_CONTEXT_STATISTICS_PAUTA_H_

#include <cstddef>
#include <span>
#include <vector>

namespace quire::worker {

/// How far one of `n` samples can be from their mean, in deviations of the sample, (n-1)/sqrt(n);
/// in deviations of the population, sqrt(n-1). Both pass 3 between 10 and 11 samples. 0 of none.
double PautaReach(size_t n);

/// Indices of the samples below mean - 3 deviations, ascending. Where nothing can be so far out (10
/// samples or fewer), the index of the least one, the first of equal ones. Infinite ones and NaN
/// are not samples.
std::vector<size_t> PautaOutliers(std::span<const double> samples);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CONTEXT_STATISTICS_PAUTA_H_
