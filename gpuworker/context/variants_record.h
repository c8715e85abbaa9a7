// SPDX-License-Identifier: Apache-2.0
//
// Variants of a document (Cache-Craft) as bytes that are stored with it (extras.proto).
// Thread-safety: pure functions.
#ifndef QUIRE_GPUWORKER_CONTEXT_VARIANTS_RECORD_H_
#define QUIRE_GPUWORKER_CONTEXT_VARIANTS_RECORD_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuworker/context/cachecraft.h"
#include "quire/status.h"

namespace quire::worker {

inline constexpr std::string_view kVariantsExtra = "cachecraft.variants";
inline constexpr uint32_t kVariantsVersion = 1;

std::string EncodeVariants(std::span<const ChunkVariant> variants);

/// DATA_LOSS when the bytes are no variants of a document of `tokens` tokens.
StatusOr<std::vector<ChunkVariant>> DecodeVariants(std::string_view bytes, uint64_t tokens);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CONTEXT_VARIANTS_RECORD_H_
