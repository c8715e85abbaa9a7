// SPDX-License-Identifier: Apache-2.0
//
// Statistics of documents (SamKV) in the store, as the extra kStatisticsExtra.
// Thread-safety: pure functions over a client.
#ifndef QUIRE_GPUWORKER_ENGINE_INGEST_STORED_STATISTICS_H_
#define QUIRE_GPUWORKER_ENGINE_INGEST_STORED_STATISTICS_H_

#include <cstdint>

#include "gpuworker/context/samkv_selection.h"
#include "quire/client.h"
#include "quire/documents.h"
#include "quire/status.h"

namespace quire::worker {

/// Stores them with `document`. Errors are those of Client::PutExtra.
[[nodiscard]] Status PutStatistics(Client* client, const DocumentName& document,
                                   const DocumentStatistics& statistics);

/// Reads those of a document of `tokens` tokens. NOT_FOUND when there are none, DATA_LOSS for
/// others.
StatusOr<DocumentStatistics> GetStatistics(Client* client, const DocumentName& document,
                                           const SamKvShape& shape, uint64_t tokens);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_INGEST_STORED_STATISTICS_H_
