// SPDX-License-Identifier: Apache-2.0
//
// DigestDeriver: digests of every kind, of every segment, whenever it was put. Those that a put
// does not make are computed from the stored units when they are first asked for, and kept in the
// DigestStore, so that the units are read for that once; so are those that it makes, when what was
// stored of them fails its checksum or is gone. Units are verified before anything is made of them.
// Representatives that nobody gave, or that are damaged, are the means.
// Thread-safety: all methods may be called concurrently. Two that want the same at once both
// compute it.
#ifndef QUIRE_KVSERVER_STORE_DIGEST_DERIVER_H_
#define QUIRE_KVSERVER_STORE_DIGEST_DERIVER_H_

#include <string_view>

#include "common/base/counters.h"
#include "common/base/metrics.h"
#include "kvserver/store/keyed_lock.h"
#include "kvserver/store/metadata/digest_store.h"
#include "kvserver/store/metadata/segment_catalog.h"
#include "kvserver/store/unit_reader.h"
#include "quire/status.h"

namespace quire::kvserver {

class DigestDeriver {
 public:
  /// All outlive the deriver. `writers` keeps what is derived from outliving its segment.
  struct Parts {
    DigestStore* digests = nullptr;
    UnitReader* reader = nullptr;
    SegmentCatalog* catalog = nullptr;
    KeyedLock* writers = nullptr;
  };
  explicit DigestDeriver(const Parts& parts) : parts_(parts) {}

  /// Digests of an extent, of a kind that the spec has (HasDigest). Errors are those of reading its
  /// units.
  StatusOr<DigestBytes> Read(const DigestId& id, const SegmentRecord& record,
                             Priority priority = Priority::kNormal);

  /// Makes digests anew whose row in the database is damaged, though the cache may have them. Those
  /// that only a client can make are dropped: they read as the means until one gives them again.
  /// Errors are those of reading units; UNAVAILABLE when they could not be kept now.
  [[nodiscard]] Status Mend(const DigestId& id, const SegmentRecord& record);

  /// digests_derived, digests_mended.
  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  StatusOr<DigestBytes> Derive(const DigestId& id, const SegmentRecord& record, Priority priority);
  /// Whether they are in the database now.
  bool Keep(const DigestId& id, const SegmentRecord& record, const DigestBytes& digests);

  const Parts parts_;
  Counter derived_, mended_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_DIGEST_DERIVER_H_
