// SPDX-License-Identifier: Apache-2.0
//
// RegistryRow: the scrub's check of the registry's rows in the metadata. Pure function.
#ifndef QUIRE_KVSERVER_REGISTRY_ROWS_REGISTRY_ROW_H_
#define QUIRE_KVSERVER_REGISTRY_ROWS_REGISTRY_ROW_H_

#include <string_view>

#include "quire/status.h"

namespace quire::kvserver {

/// DATA_LOSS naming the remedy, for an unreadable row of the registry. OK for every other row, and
/// for statistics, which count from zero again.
[[nodiscard]] Status CheckRegistryRow(std::string_view key, std::string_view value);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_REGISTRY_ROWS_REGISTRY_ROW_H_
