// SPDX-License-Identifier: Apache-2.0
#include "common/metrics/build_info.h"

#include "quire/version.h"

namespace quire {

void VisitBuildInfo(MetricsVisitor& visit) {
  visit.Gauge("build_info", "Always 1; its label says which version runs.", 1,
              {{"version", QUIRE_VERSION}});
}

}  // namespace quire
