// SPDX-License-Identifier: Apache-2.0
//
// quire_bench: benchmarks, torture of the store, and large clusters on paper. Usually started as
// `quire bench`, `quire torture` or `quire sim`.
#include <unistd.h>

#include <iostream>

#include "apps/quire_bench/commands.h"

int main(int argc, char** argv) {
  using namespace quire::cli;
  Commands commands(std::cout, std::cerr, isatty(STDOUT_FILENO) == 1);
  AddBenchCommand(commands);
  AddTortureCommand(commands);
  AddSimCommand(commands);
  return commands.Run(argc, argv);
}
