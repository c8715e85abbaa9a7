// SPDX-License-Identifier: Apache-2.0
//
// VisitBuildInfo: which version runs, as every process that has metrics tells it.
#ifndef QUIRE_COMMON_METRICS_BUILD_INFO_H_
#define QUIRE_COMMON_METRICS_BUILD_INFO_H_

#include "common/base/metrics.h"

namespace quire {

/// The gauge build_info. Thread-safe.
void VisitBuildInfo(MetricsVisitor& visit);

}  // namespace quire

#endif  // QUIRE_COMMON_METRICS_BUILD_INFO_H_
