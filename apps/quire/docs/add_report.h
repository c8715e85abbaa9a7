// SPDX-License-Identifier: Apache-2.0
//
// AddReport: what became of the files of `quire docs add`. Thread-safety: none.
#ifndef QUIRE_APPS_QUIRE_DOCS_ADD_REPORT_H_
#define QUIRE_APPS_QUIRE_DOCS_ADD_REPORT_H_

#include <string>
#include <vector>

#include "apps/kit/command.h"
#include "apps/kit/documents/document_files.h"
#include "gpuworker/ingest/document_ingest.h"
#include "quire/documents.h"
#include "quire/status.h"

namespace quire::cli {

struct AddReport {
  std::vector<worker::IngestedDocument> added;
  std::vector<worker::IngestedDocument> unchanged;
  std::vector<RefusedFile> refused;
  std::vector<std::string> pruned;  ///< Sources that are gone.
  uint64_t left = 0;                ///< Files not looked at.
  Status ended;                     ///< Why the command ended early; OK when it did not.
  double seconds = 0;
};

/// Prints the report. Returns a failure when anything was refused or left.
Status PrintReport(const AddReport& report, const CommandContext& context);

}  // namespace quire::cli

#endif  // QUIRE_APPS_QUIRE_DOCS_ADD_REPORT_H_
