// SPDX-License-Identifier: Apache-2.0
//
// Variants of a document (Cache-Craft) as bytes that are stored with it (extras.proto).
// Thread-safety: pure functions.
#ifndef QUIRE_GPUWORKER_CONTEXT_CACHECRAFT_VARIANTS_RECORD_H_
#define QUIRE_GPUWORKER_CONTEXT_CACHECRAFT_VARIANTS_RECORD_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuworker/context/cachecraft/cachecraft.h"
#include "quire/status.h"

namespace quire::worker {

inline constexpr std::string_view kVariantsExtra = "cachecraft.variants";
inline constexpr uint32_t kVariantsVersion = 1;
/// Most variants of a document, and most documents before one of them.
inline constexpr uint32_t kMostVariants = 16;
inline constexpr uint32_t kMostPrefix = 64;

std::string EncodeVariants(std::span<const ChunkVariant> variants);

/// DATA_LOSS when the bytes are no variants of a document of `tokens` tokens, or too many.
StatusOr<std::vector<ChunkVariant>> DecodeVariants(std::string_view bytes, uint64_t tokens);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CONTEXT_CACHECRAFT_VARIANTS_RECORD_H_
