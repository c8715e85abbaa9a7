// SPDX-License-Identifier: Apache-2.0
//
// In place of the benchmarks, where they are not built.
#include "client/cli/commands.h"

namespace quire::cli {

void AddBenchCommand(Commands&) {}

}  // namespace quire::cli
