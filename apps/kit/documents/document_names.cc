// SPDX-License-Identifier: Apache-2.0
#include "apps/kit/documents/document_names.h"

#include <CLI/CLI.hpp>

namespace quire::cli {

StatusOr<std::vector<Readings<DocumentName>>> DocumentNames::Parse() const {
  std::vector<Readings<DocumentName>> names;
  for (const std::string& text : texts) {
    QUIRE_ASSIGN_OR_RETURN(names.emplace_back(), ParseDocumentName(text, collection));
  }
  return names;
}

CLI::Option* AddDocumentNames(CLI::App& command, DocumentNames* names) {
  command.add_option("--collection", names->collection, "Collection of names without one")
      ->capture_default_str();
  return command.add_option("DOCUMENT", names->texts, "[COLLECTION/]NAME[@VERSION]");
}

}  // namespace quire::cli
