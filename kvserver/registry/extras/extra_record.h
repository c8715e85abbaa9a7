// SPDX-License-Identifier: Apache-2.0
//
// Value of an extra's row: what is known of its bytes, which are a checked value of a row of their
// own. Versioned and checksummed. Pure functions.
#ifndef QUIRE_KVSERVER_REGISTRY_EXTRAS_EXTRA_RECORD_H_
#define QUIRE_KVSERVER_REGISTRY_EXTRAS_EXTRA_RECORD_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quire/documents.h"
#include "quire/key.h"
#include "quire/status.h"

namespace quire::kvserver {

inline constexpr uint32_t kMostExtraSegments = 4096;

/// `segments` were made from the document, and go with it.
[[nodiscard]] std::string EncodeExtra(const Extra& extra, std::span<const SegmentKey> segments);
/// Both decode untrusted bytes safely. DATA_LOSS with the remedy when they are damaged.
[[nodiscard]] StatusOr<Extra> DecodeExtra(std::string_view name, std::string_view encoded);
[[nodiscard]] StatusOr<std::vector<SegmentKey>> DecodeExtraSegments(std::string_view name,
                                                                    std::string_view encoded);

/// The bytes with their checksum, and back.
[[nodiscard]] std::string EncodeExtraBytes(std::string_view bytes);
[[nodiscard]] StatusOr<std::string> DecodeExtraBytes(std::string_view name,
                                                     std::string_view encoded);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_REGISTRY_EXTRAS_EXTRA_RECORD_H_
