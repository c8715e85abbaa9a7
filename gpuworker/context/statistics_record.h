// SPDX-License-Identifier: Apache-2.0
//
// Statistics of a document as bytes that are stored with it (extras.proto). Thread-safety: pure
// functions.
#ifndef QUIRE_GPUWORKER_CONTEXT_STATISTICS_RECORD_H_
#define QUIRE_GPUWORKER_CONTEXT_STATISTICS_RECORD_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "gpuworker/context/samkv_selection.h"
#include "quire/status.h"

namespace quire::worker {

inline constexpr std::string_view kStatisticsExtra = "samkv.statistics";
inline constexpr uint32_t kStatisticsVersion = 2;

/// Vectors are rounded to f16.
std::string EncodeStatistics(const DocumentStatistics& statistics);

/// DATA_LOSS when the bytes are no statistics of a document of `tokens` tokens and a model of
/// `shape`.
StatusOr<DocumentStatistics> DecodeStatistics(std::string_view bytes, const SamKvShape& shape,
                                              uint64_t tokens);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CONTEXT_STATISTICS_RECORD_H_
