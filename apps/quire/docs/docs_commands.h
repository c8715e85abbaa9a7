// SPDX-License-Identifier: Apache-2.0
//
// The commands of the group `quire docs`, each defined in docs_NAME.cc. Each adds itself to `docs`.
#ifndef QUIRE_APPS_QUIRE_DOCS_DOCS_COMMANDS_H_
#define QUIRE_APPS_QUIRE_DOCS_DOCS_COMMANDS_H_

#include "apps/kit/command.h"

namespace quire::cli {

/// Adds the group, which lists documents by itself, with ls and search.
CLI::App& AddDocsList(Commands& commands, const Commands::Spec& group);

void AddDocsAdd(Commands& commands, CLI::App& docs);
void AddDocsShow(Commands& commands, CLI::App& docs);
void AddDocsHistory(Commands& commands, CLI::App& docs);
void AddDocsWatch(Commands& commands, CLI::App& docs);
void AddDocsWarm(Commands& commands, CLI::App& docs);
void AddDocsChange(Commands& commands, CLI::App& docs);  // rm, tag, latest and invalidate

}  // namespace quire::cli

#endif  // QUIRE_APPS_QUIRE_DOCS_DOCS_COMMANDS_H_
