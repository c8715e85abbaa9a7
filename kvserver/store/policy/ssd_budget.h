// SPDX-License-Identifier: Apache-2.0
//
// SsdBudget: the division of a disk limit. The limit covers all files of a data directory: payload
// volumes, which are preallocated and never shrink, and the database with its log. A smaller limit
// means smaller volumes and database buffers, since both take space even when empty. Pure functions
// of numbers.
#ifndef QUIRE_KVSERVER_STORE_POLICY_SSD_BUDGET_H_
#define QUIRE_KVSERVER_STORE_POLICY_SSD_BUDGET_H_

#include <cstdint>

#include "common/base/status.h"

namespace quire::kvserver {

struct SsdBudget {
  /// Least useful limit: the database alone takes a good part of it.
  static constexpr uint64_t kLeastBytes = uint64_t{16} << 20;

  uint64_t limit_bytes = 0;
  uint64_t volumes_bytes = 0;  ///< Limit of all volumes together.
  uint64_t volume_bytes = 0;   ///< Size of a new volume.
  /// Limit of payload in volumes; the rest of them is for fragments and rounding.
  uint64_t payload_bytes = 0;
  uint64_t metadata_bytes = 0;  ///< Limit of all files of the database.
  uint64_t buffer_bytes = 0;    ///< Database memory not yet in a file.
};

/// Divides `limit_bytes`, of which volumes have `present_bytes` already. `largest_volume_bytes` is
/// the size of a volume where there is room for many. INVALID_ARGUMENT naming the least useful
/// limit, when it is below kLeastBytes or the present volumes leave nothing to the database.
StatusOr<SsdBudget> DivideSsd(uint64_t limit_bytes, uint64_t largest_volume_bytes,
                              uint64_t present_bytes);

/// True when a database of `bytes` stays within `metadata_bytes` whatever it does next. During a
/// compaction the replaced files are still there. Buffers become files before their log is deleted.
bool MetadataFits(uint64_t bytes, uint64_t metadata_bytes, uint64_t buffer_bytes);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_POLICY_SSD_BUDGET_H_
