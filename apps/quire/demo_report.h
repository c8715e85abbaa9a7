// SPDX-License-Identifier: Apache-2.0
//
// Output of the demo: a table for people and one JSON object for programs. Pure functions.
#ifndef QUIRE_APPS_QUIRE_DEMO_REPORT_H_
#define QUIRE_APPS_QUIRE_DEMO_REPORT_H_

#include <ostream>

#include "apps/kit/output/json_output.h"
#include "apps/quire/demo_run.h"

namespace quire::cli {

/// Sums over the rows; ratios are 0 when nothing was asked.
struct DemoTotals {
  uint64_t questions = 0;
  uint64_t full_correct = 0;
  uint64_t sparse_correct = 0;
  uint32_t answers_crc32c = 0;  ///< Checksum of all answers, full and sparse.
  double budget_ratio = 0;      ///< Resident tokens / context tokens of the sparse runs.
  worker::MovedBytes moved;     ///< Bytes of the sparse runs.
  double tokens_per_s_full = 0;
  double tokens_per_s_sparse = 0;
  uint64_t ssd_reads = 0;  ///< Units.
  uint64_t units_recalled = 0;
  uint64_t units_landed = 0;     ///< Recalled units that the server wrote into place.
  uint64_t units_from_host = 0;  ///< Kept by this process, and not fetched.
  uint64_t min_context_tokens = 0;
};
DemoTotals Sum(const DemoReport& report);

void PrintDemoTable(const DemoReport& report, std::ostream& out);
Json DemoJson(const DemoReport& report, const DemoOptions& options);

}  // namespace quire::cli

#endif  // QUIRE_APPS_QUIRE_DEMO_REPORT_H_
