// SPDX-License-Identifier: Apache-2.0
//
// Statistics of a document as bytes that are stored with it (extras.proto), those of SamKV apart
// from those of InfLLM. Thread-safety: pure functions.
#ifndef QUIRE_GPUWORKER_CONTEXT_STATISTICS_STATISTICS_RECORD_H_
#define QUIRE_GPUWORKER_CONTEXT_STATISTICS_STATISTICS_RECORD_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "gpuworker/context/samkv/samkv_selection.h"
#include "quire/status.h"

namespace quire::worker {

inline constexpr std::string_view kStatisticsExtra = "samkv.statistics";
inline constexpr uint32_t kStatisticsVersion = 3;
inline constexpr std::string_view kRepresentativesExtra = "infllm.representatives";
inline constexpr uint32_t kRepresentativesVersion = 1;

/// All but representative keys. Vectors are rounded to f16.
std::string EncodeStatistics(const DocumentStatistics& statistics);

/// DATA_LOSS when the bytes are no statistics of a document of `tokens` tokens and a model of
/// `shape`.
StatusOr<DocumentStatistics> DecodeStatistics(std::string_view bytes, const SamKvShape& shape,
                                              uint64_t tokens);

/// The representative keys, rounded to f16.
std::string EncodeRepresentatives(const DocumentStatistics& statistics);

/// Adds representative keys to the other statistics of their document. DATA_LOSS when the bytes are
/// none of that document.
Status DecodeRepresentatives(std::string_view bytes, const SamKvShape& shape,
                             DocumentStatistics* statistics);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CONTEXT_STATISTICS_STATISTICS_RECORD_H_
