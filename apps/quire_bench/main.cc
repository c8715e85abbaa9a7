// SPDX-License-Identifier: Apache-2.0
//
// quire_bench: benchmarks, and torture of the store. Usually started as `quire bench` or
// `quire torture`.
#include <unistd.h>

#include <iostream>

#include "apps/quire_bench/commands.h"

int main(int argc, char** argv) {
  using namespace quire::cli;
  Commands commands(std::cout, std::cerr, isatty(STDOUT_FILENO) == 1);
  AddBenchCommand(commands);
  AddTortureCommand(commands);
  return commands.Run(argc, argv);
}
