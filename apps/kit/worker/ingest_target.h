// SPDX-License-Identifier: Apache-2.0
//
// IngestTarget: makes documents of texts, with a model in this process or at a worker.
// Thread-safety: Ingest may be called concurrently.
#ifndef QUIRE_APPS_KIT_WORKER_INGEST_TARGET_H_
#define QUIRE_APPS_KIT_WORKER_INGEST_TARGET_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apps/kit/worker/local_worker.h"
#include "gpuworker/ingest/document_ingest.h"
#include "quire/bearer_token.h"
#include "quire/clock.h"
#include "quire/status.h"

namespace quire::cli {

class IngestTarget {
 public:
  virtual ~IngestTarget() = default;

  /// Documents that have `text`, whose hash is set here. Nothing is computed or sent where they are
  /// stored already. Errors are those of DocumentIngest::Store. CANCELLED when `observer` returns
  /// false.
  virtual StatusOr<std::vector<worker::IngestedDocument>> Ingest(
      worker::DocumentToIngest what, std::string_view text,
      const worker::IngestObserver& observer) = 0;
};

/// Ingests in this process. `local` outlives the target.
std::unique_ptr<IngestTarget> IngestHere(const LocalWorker* local);

struct IngestThereOptions {
  std::string address;  ///< Where the worker listens.
  std::string tenant;
  BearerToken token = {};  ///< Proof of the tenant, for a worker that asks for it.
  /// Limit of one document, retries included.
  Duration timeout = std::chrono::hours(24);
  Duration unreachable_for = std::chrono::seconds(5);  ///< As RetryOptions::unreachable_for.
};

/// Ingests at a worker. It waits and retries while the worker is full or cannot be reached. Errors
/// name the worker. INVALID_ARGUMENT for a malformed address.
StatusOr<std::unique_ptr<IngestTarget>> IngestThere(const IngestThereOptions& options);

}  // namespace quire::cli

#endif  // QUIRE_APPS_KIT_WORKER_INGEST_TARGET_H_
