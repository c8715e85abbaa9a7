// SPDX-License-Identifier: Apache-2.0
//
// quire: the command-line program.
#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include "apps/quire/commands.h"

int main(int argc, char** argv) {
  using namespace quire::cli;
  const char* const token = std::getenv("QUIRE_TOKEN");
  Commands commands(std::cout, std::cerr, isatty(STDOUT_FILENO) == 1,
                    token != nullptr ? token : "");
  commands.TraceAs(std::getenv);
  AddDemoCommand(commands);
  AddServeCommand(commands);
  AddPutCommand(commands);
  AddAskCommand(commands);
  AddLsCommand(commands);
  AddStatCommand(commands);
  AddTopCommand(commands);
  AddRmCommand(commands);
  AddDocsCommand(commands);
  AddCollectionCommand(commands);
  AddPinCommands(commands);
  AddObjectCommand(commands);
  AddConversationCommand(commands);
  AddEventsCommand(commands);
  AddClusterCommand(commands);
  AddWorkerCommand(commands);
  AddFsckCommand(commands);
  AddPlanCommand(commands);
  AddSpecCommand(commands);
  commands.AddProgram({.name = "bench",
                       .summary = "Measure against the machine's limits and the rivals",
                       .examples = "  quire bench --help"},
                      "quire_bench");
  commands.AddProgram({.name = "torture",
                       .summary = "Try to make the store lose something",
                       .examples = "  quire torture --help"},
                      "quire_bench");
  commands.AddProgram({.name = "sim",
                       .summary = "Look at large clusters, metadata only",
                       .examples = "  quire sim --help"},
                      "quire_bench");
  return commands.Run(argc, argv);
}
