// SPDX-License-Identifier: Apache-2.0
//
// A question over several stored documents: what `quire ask --docs` does. Each document was stored
// alone; the method decides how their caches are reused.
#ifndef QUIRE_APPS_QUIRE_ASK_DOCUMENTS_H_
#define QUIRE_APPS_QUIRE_ASK_DOCUMENTS_H_

#include <string>
#include <vector>

#include "apps/kit/output/json_output.h"
#include "apps/kit/target.h"
#include "gpuworker/engine/reuse/reuse_run.h"
#include "quire/client.h"
#include "quire/documents.h"
#include "quire/kv_spec.h"
#include "quire/status.h"

namespace CLI {
class App;
}

namespace quire::cli {

/// Names of documents, in the order of the prompt.
using Names = std::vector<DocumentName>;

struct DocumentsFlags {
  std::string documents;  ///< Names, divided by commas; empty for none.
  std::string method = "cacheblend";
  worker::ReuseOptions reuse;
  bool overwrite = false;  ///< SamKV without fusion.

  /// Takes --recompute-ratio: a number, or auto.
  void SetRatio(const std::string& text);
  /// Options for the engine. INVALID_ARGUMENT for an unknown method.
  StatusOr<worker::ReuseOptions> Options() const;
};

/// Adds --docs, --method, what methods read, and --skip-missing. `flags` lives as long as
/// `command`.
void AddDocumentsFlags(CLI::App& command, DocumentsFlags& flags);

/// The names of --docs. INVALID_ARGUMENT when there are none, or for text that is no name.
StatusOr<Readings<Names>> ParseNames(const std::string& documents, const std::string& collection);

/// The pages that a document was stored in.
struct StoredIn {
  DocumentName name;
  KvSpec spec;
};
/// The first of `names` that is stored; the engine that answers has its pages. NOT_FOUND when none
/// is.
StatusOr<StoredIn> FirstStored(const Names& names, Client& client);

/// For --json, without the names.
Json Measures(const worker::ReuseStats& stats, worker::ReuseMethod method);
/// Measures in words.
std::string Summary(const worker::ReuseStats& stats, worker::ReuseMethod method);

}  // namespace quire::cli

#endif  // QUIRE_APPS_QUIRE_ASK_DOCUMENTS_H_
