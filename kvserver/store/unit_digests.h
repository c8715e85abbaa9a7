// SPDX-License-Identifier: Apache-2.0
//
// Digests of units, computed from their keys. Thread-safety: pure functions.
#ifndef QUIRE_KVSERVER_STORE_UNIT_DIGESTS_H_
#define QUIRE_KVSERVER_STORE_UNIT_DIGESTS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/api/digest.h"
#include "quire/kv_spec.h"
#include "quire/status.h"

namespace quire::kvserver {

/// Consecutive pages of one layer of a context, [pages][n_kv] units.
struct UnitsToDigest {
  const std::byte* units = nullptr;          ///< Aligned for their dtype.
  std::span<const int32_t> valid_rows = {};  ///< One for each unit: rows with tokens.
  /// Position in the context of the first page's first token. Read by DigestKind::kContent alone.
  uint64_t first_token = 0;
};

/// Computes digests of a kind that the spec has (HasDigest) to `digests`, which has room for them.
/// INTERNAL when the kernels refuse.
[[nodiscard]] Status ComputeDigests(const KvSpec& spec, kernels::DigestKind kind,
                                    const UnitsToDigest& from, std::byte* digests);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_UNIT_DIGESTS_H_
