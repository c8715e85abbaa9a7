// SPDX-License-Identifier: Apache-2.0
//
// RegistryRow: what the scrub asks of the registry's rows in the metadata. Pure function.
#ifndef QUIRE_KVSERVER_REGISTRY_REGISTRY_ROW_H_
#define QUIRE_KVSERVER_REGISTRY_REGISTRY_ROW_H_

#include <string_view>

#include "quire/status.h"

namespace quire::kvserver {

/// DATA_LOSS, naming the remedy, for a document, a chain or a collection's settings that cannot be
/// read any more. OK for every other row.
[[nodiscard]] Status CheckRegistryRow(std::string_view key, std::string_view value);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_REGISTRY_REGISTRY_ROW_H_
