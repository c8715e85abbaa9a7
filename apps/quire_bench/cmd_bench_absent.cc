// SPDX-License-Identifier: Apache-2.0
//
// Stands in for the benchmarks where they are not built.
#include "apps/quire_bench/commands.h"

namespace quire::cli {

void AddBenchCommand(Commands&) {}

}  // namespace quire::cli
