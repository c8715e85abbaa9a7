// SPDX-License-Identifier: Apache-2.0
//
// AddFiles: reads files and makes documents of them, several at a time.
#ifndef QUIRE_APPS_QUIRE_DOCS_ADD_FILES_H_
#define QUIRE_APPS_QUIRE_DOCS_ADD_FILES_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/kit/documents/document_files.h"
#include "apps/kit/worker/ingest_target.h"
#include "apps/quire/docs/add_report.h"
#include "apps/reading/document_text.h"
#include "quire/documents.h"

namespace quire::cli {

/// How documents are kept.
struct AddOptions {
  std::string collection = "default";
  Tags tags = {};
  std::optional<uint64_t> ttl_seconds = {};
  ReadingOptions reading = {};
  bool split = false;
  uint32_t jobs = 1;  ///< Documents at a time.
};

/// Adds the files, or what `standard_input` has where a path is "-". A file that cannot be read as
/// text is refused; what concerns all files ends the adding (AddReport::ended). It also ends soon
/// after `is_stopped` returns true, which any thread may ask.
AddReport AddFiles(const FoundFiles& found, const std::string& standard_input,
                   const AddOptions& options, IngestTarget& target,
                   const std::function<bool()>& is_stopped);

}  // namespace quire::cli

#endif  // QUIRE_APPS_QUIRE_DOCS_ADD_FILES_H_
