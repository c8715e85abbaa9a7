// SPDX-License-Identifier: Apache-2.0
//
// The report of `quire sim scale`: figures measured at the size of the samples, and the same scaled
// to the whole cluster.
#ifndef QUIRE_BENCH_SCALE_SCALE_REPORT_H_
#define QUIRE_BENCH_SCALE_SCALE_REPORT_H_

#include "apps/kit/output/json_output.h"
#include "apps/kit/output/table.h"
#include "bench/scale/etcd_scale.h"
#include "bench/scale/memory_scale.h"
#include "bench/scale/placement_scale.h"
#include "bench/scale/scale_cluster.h"

namespace quire::scale {

struct ScaleFigures {
  PlacementScale placement;
  EtcdScale etcd;
  MemoryScale memory;
};

/// Measures all of it, which takes minutes for a large sample.
[[nodiscard]] ScaleFigures MeasureScale(const ScaleOptions& options);
[[nodiscard]] cli::Json ScaleJson(const ScaleOptions& options, const ScaleFigures& figures);
[[nodiscard]] cli::Table ScaleTable(const cli::Json& report);

}  // namespace quire::scale

#endif  // QUIRE_BENCH_SCALE_SCALE_REPORT_H_
