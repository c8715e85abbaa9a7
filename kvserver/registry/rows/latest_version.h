// SPDX-License-Identifier: Apache-2.0
//
// LatestVersion: the alias of a name's latest READY version, and the highest version it ever had
// while it has any. In a cluster both are what the servers agreed on. Versioned and checksummed.
// Version 2 of the record appends the revision of the agreement to version 1. A row is written in
// the oldest version that holds it. Pure functions.
#ifndef QUIRE_KVSERVER_REGISTRY_ROWS_LATEST_VERSION_H_
#define QUIRE_KVSERVER_REGISTRY_ROWS_LATEST_VERSION_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "quire/documents.h"
#include "quire/status.h"

namespace quire::kvserver {

struct LatestVersion {
  uint64_t latest = 0;  ///< 0: no version is READY.
  uint64_t highest = 0;
  uint64_t revision = 0;  ///< AgreedName::revision; 0: changed by no agreement.
  friend bool operator==(const LatestVersion&, const LatestVersion&) = default;
};

[[nodiscard]] std::string EncodeLatest(const LatestVersion& latest);
/// Decodes untrusted bytes safely. DATA_LOSS naming the document when they are damaged.
[[nodiscard]] StatusOr<LatestVersion> DecodeLatest(const DocumentName& name,
                                                   std::string_view encoded);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_REGISTRY_ROWS_LATEST_VERSION_H_
