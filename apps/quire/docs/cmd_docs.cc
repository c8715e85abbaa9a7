// SPDX-License-Identifier: Apache-2.0
//
// quire docs: the document registry, from files to documents and back.
#include <CLI/CLI.hpp>

#include "apps/quire/commands.h"
#include "apps/quire/docs/docs_commands.h"

namespace quire::cli {

void AddDocsCommand(Commands& commands) {
  CLI::App& docs = AddDocsList(
      commands,
      {.name = "docs",
       .summary = "The document registry: add files, list, search, tag, watch",
       .examples = "  quire docs                         the same as `quire docs ls`\n"
                   "  quire docs add ~/handbook --collection handbook --tag team=ops --ttl 30d\n"
                   "  quire docs search --where 'team=ops and created>2026-01-01'\n"
                   "  quire docs show manuals/pump.txt@2\n"
                   "  quire docs watch --json"});
  AddDocsAdd(commands, docs);
  AddDocsShow(commands, docs);
  AddDocsChange(commands, docs);
  AddDocsWarm(commands, docs);
  AddDocsHistory(commands, docs);
  AddDocsWatch(commands, docs);
}

}  // namespace quire::cli
