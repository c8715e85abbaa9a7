// SPDX-License-Identifier: Apache-2.0
//
// RegistryRow: the scrub's check of the registry's rows in the metadata. Pure function.
#ifndef QUIRE_KVSERVER_REGISTRY_REGISTRY_ROW_H_
#define QUIRE_KVSERVER_REGISTRY_REGISTRY_ROW_H_

#include <string_view>

#include "common/base/status.h"

namespace quire::kvserver {

/// DATA_LOSS naming the remedy, for an unreadable document, chain or collection's settings. OK for
/// every other row.
[[nodiscard]] Status CheckRegistryRow(std::string_view key, std::string_view value);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_REGISTRY_REGISTRY_ROW_H_
