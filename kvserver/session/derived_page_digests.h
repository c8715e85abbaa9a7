// SPDX-License-Identifier: Apache-2.0
//
// DerivedPageDigests: digests of a page in memory of the kinds that are not made on arrival,
// computed from its units when they are first asked for and kept as long as the page, with a
// checksum: those that do not match it are computed anew.
// Thread-safety: safe for concurrent use.
#ifndef QUIRE_KVSERVER_SESSION_DERIVED_PAGE_DIGESTS_H_
#define QUIRE_KVSERVER_SESSION_DERIVED_PAGE_DIGESTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "kernels/api/digest.h"
#include "quire/kv_spec.h"
#include "quire/status.h"

namespace quire::kvserver {

/// The [n_kv] units of one layer of a page, aligned for the dtype, their checksums, and how many
/// rows hold tokens.
struct LayerUnits {
  uint32_t layer = 0;
  const std::byte* units = nullptr;
  std::span<const uint32_t> crc32c = {};  ///< [n_kv]
  uint32_t rows = 0;
};

class DerivedPageDigests {
 public:
  /// What all kinds take of one page, at all layers.
  static uint64_t MaxBytes(const KvSpec& spec);

  /// Copies the digests of `kind`, which the spec has, to `out`, PageDigestBytes(spec, kind) bytes.
  /// Units are the same at every call for a layer. DATA_LOSS when they would be made of a unit that
  /// does not match its checksum.
  [[nodiscard]] Status CopyTo(const KvSpec& spec, kernels::DigestKind kind, const LayerUnits& from,
                              std::byte* out) QUIRE_EXCLUDES(mutex_);

 private:
  struct Made {
    std::vector<std::byte> digests;
    uint32_t crc32c = 0;
  };

  Mutex mutex_;
  std::map<std::pair<kernels::DigestKind, uint32_t>, Made> made_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_DERIVED_PAGE_DIGESTS_H_
