// SPDX-License-Identifier: Apache-2.0
//
// Every command of the `quire` program, each defined in cmd_NAME.cc. A new command is a new file,
// one line here and one in main.cc.
#ifndef QUIRE_APPS_QUIRE_COMMANDS_H_
#define QUIRE_APPS_QUIRE_COMMANDS_H_

#include "apps/kit/command.h"

namespace quire::cli {

void AddServeCommand(Commands& commands);
void AddPutCommand(Commands& commands);
void AddLsCommand(Commands& commands);
void AddStatCommand(Commands& commands);
void AddTopCommand(Commands& commands);
void AddRmCommand(Commands& commands);
void AddDocsCommand(Commands& commands);
void AddCollectionCommand(Commands& commands);
void AddObjectCommand(Commands& commands);
void AddClusterCommand(Commands& commands);
void AddConversationCommand(Commands& commands);
void AddEventsCommand(Commands& commands);
void AddPinCommands(Commands& commands);  // pin and unpin
void AddAskCommand(Commands& commands);
void AddWorkerCommand(Commands& commands);
void AddFsckCommand(Commands& commands);
void AddDemoCommand(Commands& commands);
void AddPlanCommand(Commands& commands);
void AddSpecCommand(Commands& commands);

}  // namespace quire::cli

#endif  // QUIRE_APPS_QUIRE_COMMANDS_H_
