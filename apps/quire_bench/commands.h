// SPDX-License-Identifier: Apache-2.0
//
// Commands of the `quire_bench` program. `quire` starts it for `quire bench`,
// `quire torture` and `quire sim`.
#ifndef QUIRE_APPS_QUIRE_BENCH_COMMANDS_H_
#define QUIRE_APPS_QUIRE_BENCH_COMMANDS_H_

#include "apps/kit/command.h"

namespace CLI {
class App;
}

namespace quire::cli {

void AddBenchCommand(Commands& commands);
void AddTortureCommand(Commands& commands);
void AddSimCommand(Commands& commands);
/// The command `torture cluster` of `torture`, which is `parent`.
void AddTortureCluster(Commands& commands, CLI::App& parent);

}  // namespace quire::cli

#endif  // QUIRE_APPS_QUIRE_BENCH_COMMANDS_H_
