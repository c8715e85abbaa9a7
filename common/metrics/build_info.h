// SPDX-License-Identifier: Apache-2.0
//
// VisitBuildInfo: reports the running version. Every process with metrics calls it.
#ifndef QUIRE_COMMON_METRICS_BUILD_INFO_H_
#define QUIRE_COMMON_METRICS_BUILD_INFO_H_

#include "common/base/observe/metrics.h"

namespace quire {

/// Visits the gauge build_info. Thread-safe.
void VisitBuildInfo(MetricsVisitor& visit);

}  // namespace quire

#endif  // QUIRE_COMMON_METRICS_BUILD_INFO_H_
