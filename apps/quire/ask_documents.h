// SPDX-License-Identifier: Apache-2.0
//
// A question over several stored documents: what `quire ask --docs` does. Each document was stored
// alone; the method decides how their caches are reused.
#ifndef QUIRE_APPS_QUIRE_ASK_DOCUMENTS_H_
#define QUIRE_APPS_QUIRE_ASK_DOCUMENTS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "apps/kit/output/json_output.h"
#include "gpuworker/engine/engine.h"
#include "gpuworker/engine/reuse/reuse_run.h"
#include "quire/client.h"
#include "quire/documents.h"
#include "quire/status.h"

namespace CLI {
class App;
}

namespace quire::cli {

struct DocumentsFlags {
  std::string documents;  ///< Names, divided by commas; empty for none.
  std::string method = "cacheblend";
  worker::ReuseOptions reuse;
  bool overwrite = false;  ///< SamKV without fusion.

  /// Takes --recompute-ratio: a number, or auto.
  void SetRatio(const std::string& text);
};

/// Adds --docs, --method and what methods read. `flags` lives as long as `command`.
void AddDocumentsFlags(CLI::App& command, DocumentsFlags& flags);

/// The names as they are stored: each is looked up. NOT_FOUND names the first that is missing.
StatusOr<std::vector<DocumentName>> FindDocuments(const DocumentsFlags& flags,
                                                  const std::string& collection, Client& client);

struct DocumentsAnswer {
  worker::Generation generation;
  Json measures;
  std::string summary;
};

/// Answers `prompt` over `documents`.
StatusOr<DocumentsAnswer> AskDocuments(const DocumentsFlags& flags, const worker::Engine& engine,
                                       std::span<const DocumentName> documents,
                                       std::span<const TokenId> prompt,
                                       const worker::GenerateParams& params);

}  // namespace quire::cli

#endif  // QUIRE_APPS_QUIRE_ASK_DOCUMENTS_H_
