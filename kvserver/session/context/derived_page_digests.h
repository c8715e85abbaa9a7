// SPDX-License-Identifier: Apache-2.0
//
// DerivedPageDigests: digests of a page in memory of the kinds that are not made on arrival. They
// are computed from its units on first use and kept with the page and a checksum. Damaged ones are
// computed again. Thread-safety: safe for concurrent use.
#ifndef QUIRE_KVSERVER_SESSION_CONTEXT_DERIVED_PAGE_DIGESTS_H_
#define QUIRE_KVSERVER_SESSION_CONTEXT_DERIVED_PAGE_DIGESTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "common/base/threads/mutex.h"
#include "kernels/api/digest.h"
#include "quire/kv_spec.h"
#include "quire/status.h"

namespace quire::kvserver {

/// The [n_kv] units of one layer of a page, aligned for the dtype, with their checksums and number
/// of valid rows.
struct LayerUnits {
  uint32_t layer = 0;
  const std::byte* units = nullptr;
  std::span<const uint32_t> crc32c = {};  ///< [n_kv]
  uint32_t rows = 0;
  uint64_t first_token = 0;  ///< Position of the page's first token in its context.
};

class DerivedPageDigests {
 public:
  /// Bytes of all kinds of one page, at all layers.
  static uint64_t MaxBytes(const KvSpec& spec);

  /// Copies the digests of `kind`, which the spec has, to `out`, PageDigestBytes(spec, kind) bytes.
  /// REQUIRES: every call for a layer has the same units. DATA_LOSS when a source unit does not
  /// match its checksum.
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

#endif  // QUIRE_KVSERVER_SESSION_CONTEXT_DERIVED_PAGE_DIGESTS_H_
