// SPDX-License-Identifier: Apache-2.0
//
// Statistics of documents (SamKV, InfLLM) in the store, as extras (statistics_record.h).
// Thread-safety: pure functions over a client.
#ifndef QUIRE_GPUWORKER_ENGINE_INGEST_STORED_STATISTICS_H_
#define QUIRE_GPUWORKER_ENGINE_INGEST_STORED_STATISTICS_H_

#include <cstdint>

#include "gpuworker/context/samkv/samkv_selection.h"
#include "quire/client.h"
#include "quire/documents.h"
#include "quire/status.h"

namespace quire::worker {

/// Stores them with `document`. Errors are those of Client::PutExtra.
[[nodiscard]] Status PutStatistics(Client* client, const DocumentName& document,
                                   const DocumentStatistics& statistics);

/// Reads those of a document of `tokens` tokens, and its representative keys when they are wanted.
/// NOT_FOUND when there are none, DATA_LOSS for others.
StatusOr<DocumentStatistics> GetStatistics(Client* client, const DocumentName& document,
                                           const SamKvShape& shape, uint64_t tokens,
                                           bool representatives);
/// `statistics` as GetStatistics reads them after PutStatistics, so that both select the same.
StatusOr<DocumentStatistics> AsStored(const DocumentStatistics& statistics,
                                      const SamKvShape& shape);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_INGEST_STORED_STATISTICS_H_
