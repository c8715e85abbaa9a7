// SPDX-License-Identifier: Apache-2.0
//
// quire: the command-line program.
#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include "client/cli/commands.h"

int main(int argc, char** argv) {
  using namespace quire::cli;
  const char* const token = std::getenv("QUIRE_TOKEN");
  Commands commands(std::cout, std::cerr, isatty(STDOUT_FILENO) == 1,
                    token != nullptr ? token : "");
  AddDemoCommand(commands);
  AddServeCommand(commands);
  AddPutCommand(commands);
  AddAskCommand(commands);
  AddLsCommand(commands);
  AddStatCommand(commands);
  AddRmCommand(commands);
  AddDocsCommand(commands);
  AddCollectionCommand(commands);
  AddPinCommands(commands);
  AddWorkerCommand(commands);
  AddFsckCommand(commands);
  AddBenchCommand(commands);
  AddTortureCommand(commands);
  return commands.Run(argc, argv);
}
