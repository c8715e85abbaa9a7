// SPDX-License-Identifier: Apache-2.0
//
// The part of a Generate call about several documents, between the wire and the engine's terms.
// Both ends use it: the worker, and callers of one. Pure; thread-safe.
#ifndef QUIRE_GPUWORKER_SERVICE_DOCUMENTS_CALL_H_
#define QUIRE_GPUWORKER_SERVICE_DOCUMENTS_CALL_H_

#include <cstdint>
#include <span>
#include <vector>

#include "gpuworker/context/cachecraft/variants_record.h"
#include "gpuworker/engine/reuse/reuse_run.h"
#include "quire/documents.h"
#include "quire/status.h"
#include "quire/v1/worker.pb.h"

namespace quire::worker {

inline constexpr int kMaxDocuments = DocumentReader::kMostDocuments;
inline constexpr uint32_t kMaxEpicTokens = 65536;
inline constexpr uint32_t kMaxInfLlmBlocks = 65536;
inline constexpr uint32_t kMaxVariants = kMostVariants;
inline constexpr uint32_t kMaxHops = 16;
inline constexpr uint32_t kMaxHopPages = 65536;
inline constexpr uint32_t kMaxHopLayers = 4096;
inline constexpr int kMaxStableLayers = 4096;

struct DocumentsCall {
  std::vector<DocumentName> names;
  ReuseOptions options;
};

/// INVALID_ARGUMENT names the field.
StatusOr<DocumentsCall> DocumentsFromProto(const v1::DocumentsPrompt& proto);
/// The reverse. Options that DocumentsFromProto does not read stay behind.
void DocumentsToProto(std::span<const DocumentName> names, const ReuseOptions& options,
                      v1::DocumentsPrompt* proto);

void TotalsToProto(const ReuseStats& stats, ReuseMethod method, v1::DocumentsTotals* proto);
/// INVALID_ARGUMENT for a name that is none. The method is the caller's to read.
StatusOr<ReuseStats> TotalsFromProto(const v1::DocumentsTotals& proto);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_SERVICE_DOCUMENTS_CALL_H_
