// SPDX-License-Identifier: Apache-2.0
//
// DocumentNames: the documents that a command line names, DOCUMENT... and --collection.
// Thread-safety: none.
#ifndef QUIRE_APPS_KIT_DOCUMENTS_DOCUMENT_NAMES_H_
#define QUIRE_APPS_KIT_DOCUMENTS_DOCUMENT_NAMES_H_

#include <string>
#include <vector>

#include "apps/kit/target.h"
#include "quire/documents.h"
#include "quire/status.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace quire::cli {

struct DocumentNames {
  std::vector<std::string> texts;      ///< As they were typed.
  std::string collection = "default";  ///< Collection of names without one.

  /// INVALID_ARGUMENT for the first text that is no name.
  StatusOr<std::vector<Readings<DocumentName>>> Parse() const;

  /// Calls `use`, which takes a DocumentName and returns a Status, for each document in order. All
  /// names are understood before the first is used. The first error ends the run, and names the
  /// document as it was typed.
  template <typename Use>
  Status ForEach(const Use& use) const {
    QUIRE_ASSIGN_OR_RETURN(const auto names, Parse());
    for (size_t i = 0; i < names.size(); ++i) {
      QUIRE_RETURN_IF_ERROR(Annotate(FirstFound(names[i], use), texts[i]));
    }
    return OkStatus();
  }
};

/// Adds the arguments to `command`. Returns DOCUMENT. `names` outlives the command.
CLI::Option* AddDocumentNames(CLI::App& command, DocumentNames* names);

}  // namespace quire::cli

#endif  // QUIRE_APPS_KIT_DOCUMENTS_DOCUMENT_NAMES_H_
