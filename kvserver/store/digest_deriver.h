// SPDX-License-Identifier: Apache-2.0
//
// DigestDeriver: digests of the kinds that no put makes, computed from the stored units when they
// are first asked for and kept in the DigestStore. So every kind can be asked of every segment,
// whenever it was put, and its units are read for that once. Representatives that nobody gave are
// the means.
// Thread-safety: all methods may be called concurrently. Two that want the same at once both
// compute it.
#ifndef QUIRE_KVSERVER_STORE_DIGEST_DERIVER_H_
#define QUIRE_KVSERVER_STORE_DIGEST_DERIVER_H_

#include <string_view>

#include "common/base/counters.h"
#include "common/base/metrics.h"
#include "common/base/status.h"
#include "kvserver/store/digest_store.h"
#include "kvserver/store/keyed_lock.h"
#include "kvserver/store/segment_catalog.h"
#include "kvserver/store/unit_reader.h"

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

  /// Digests of an extent, of a kind other than kMinMax that the spec has (HasDigest). Errors are
  /// those of reading its units.
  StatusOr<DigestBytes> Read(const DigestId& id, const SegmentRecord& record);

  /// digests_derived.
  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  StatusOr<DigestBytes> Derive(const DigestId& id, const SegmentRecord& record);
  void Keep(const DigestId& id, const SegmentRecord& record, const DigestBytes& digests);

  const Parts parts_;
  Counter derived_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_DIGEST_DERIVER_H_
