// SPDX-License-Identifier: Apache-2.0
//
// SsdBudget: how a limit of the disk is divided. The limit is of all files of a data directory:
// payload volumes, which are preallocated and never shrink, and the database with its log. The
// smaller it is, the smaller are the volumes and what the database buffers, for both of those are
// taken whether they are filled or not. Pure functions of numbers.
#ifndef QUIRE_KVSERVER_STORE_POLICY_SSD_BUDGET_H_
#define QUIRE_KVSERVER_STORE_POLICY_SSD_BUDGET_H_

#include <cstdint>

#include "quire/status.h"

namespace quire::kvserver {

struct SsdBudget {
  /// Less is of no use: the database alone takes a good part of it.
  static constexpr uint64_t kLeastBytes = uint64_t{16} << 20;

  uint64_t limit_bytes = 0;
  uint64_t volumes_bytes = 0;   ///< All volumes together.
  uint64_t volume_bytes = 0;    ///< A new one.
  uint64_t payload_bytes = 0;   ///< In volumes; what is left of them is for pieces and rounding.
  uint64_t metadata_bytes = 0;  ///< All files of the database.
  uint64_t buffer_bytes = 0;    ///< Of the database, in memory before it is a file.
};

/// Divides `limit_bytes`, of which volumes have `present_bytes` already. `largest_volume_bytes` is
/// the size of a volume where there is room for many. INVALID_ARGUMENT, saying the least that
/// works, when the limit is below kLeastBytes or leaves nothing to the database beside the volumes
/// that are there.
StatusOr<SsdBudget> DivideSsd(uint64_t limit_bytes, uint64_t largest_volume_bytes,
                              uint64_t present_bytes);

/// Whether a database of `bytes` stays within `metadata_bytes` whatever it does next: while it
/// compacts, what it replaces is still there; what is buffered becomes a file before its log goes.
bool MetadataFits(uint64_t bytes, uint64_t metadata_bytes, uint64_t buffer_bytes);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_POLICY_SSD_BUDGET_H_
