// SPDX-License-Identifier: Apache-2.0
//
// Value of an extra's row: what is known of its bytes, which are a checked value of a row of their
// own. Versioned and checksummed. Pure functions.
#ifndef QUIRE_KVSERVER_REGISTRY_EXTRAS_EXTRA_RECORD_H_
#define QUIRE_KVSERVER_REGISTRY_EXTRAS_EXTRA_RECORD_H_

#include <string>
#include <string_view>

#include "quire/documents.h"
#include "quire/status.h"

namespace quire::kvserver {

[[nodiscard]] std::string EncodeExtra(const Extra& extra);
/// Decodes untrusted bytes safely. DATA_LOSS with the remedy when they are damaged.
[[nodiscard]] StatusOr<Extra> DecodeExtra(std::string_view name, std::string_view encoded);

/// The bytes with their checksum, and back.
[[nodiscard]] std::string EncodeExtraBytes(std::string_view bytes);
[[nodiscard]] StatusOr<std::string> DecodeExtraBytes(std::string_view name,
                                                     std::string_view encoded);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_REGISTRY_EXTRAS_EXTRA_RECORD_H_
