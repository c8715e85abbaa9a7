// SPDX-License-Identifier: Apache-2.0
//
// DigestDeriver: digests of every kind and every stored segment. Digests that a put did not make
// are computed from the stored units on first use, and kept in the DigestStore. Lost or damaged
// digests are computed again. Units are verified first. Missing or damaged representatives are
// replaced by the means. Thread-safety: all methods may be called concurrently. Two concurrent
// calls for the same digests both compute them.
#ifndef QUIRE_KVSERVER_STORE_READ_DIGEST_DERIVER_H_
#define QUIRE_KVSERVER_STORE_READ_DIGEST_DERIVER_H_

#include <string_view>

#include "common/base/observe/counters.h"
#include "common/base/observe/metrics.h"
#include "kvserver/store/keyed_lock.h"
#include "kvserver/store/metadata/digest_store.h"
#include "kvserver/store/metadata/segment_catalog.h"
#include "kvserver/store/read/unit_reader.h"
#include "quire/status.h"

namespace quire::kvserver {

class DigestDeriver {
 public:
  /// All outlive the deriver. `writers` keeps derived digests from outliving their segment.
  struct Parts {
    DigestStore* digests = nullptr;
    UnitReader* reader = nullptr;
    SegmentCatalog* catalog = nullptr;
    KeyedLock* writers = nullptr;
  };
  explicit DigestDeriver(const Parts& parts) : parts_(parts) {}

  /// Returns digests of an extent. REQUIRES: the spec has the kind (HasDigest). Errors are those of
  /// reading its units.
  StatusOr<DigestBytes> Read(const DigestId& id, const SegmentRecord& record,
                             Priority priority = Priority::kNormal);

  /// Recomputes digests whose row in the database is damaged, even when the cache has them.
  /// Representatives cannot be recomputed. They are dropped, and read as the means until a client
  /// gives them again. Errors are those of reading units; UNAVAILABLE when they could not be stored
  /// now.
  [[nodiscard]] Status Mend(const DigestId& id, const SegmentRecord& record);

  /// digests_derived, digests_mended.
  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  StatusOr<DigestBytes> Derive(const DigestId& id, const SegmentRecord& record, Priority priority);
  /// Stores the digests. Returns true when they are in the database now.
  bool Keep(const DigestId& id, const SegmentRecord& record, const DigestBytes& digests);

  const Parts parts_;
  Counter derived_, mended_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_READ_DIGEST_DERIVER_H_
