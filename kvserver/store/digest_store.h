// SPDX-License-Identifier: Apache-2.0
//
// DigestStore: per-channel minimum and maximum of the keys of every unit (FreeKV, page digests),
// computed once when a segment is put and kept in the database and in a bounded cache. One value
// holds one segment's digests at one layer: [pages][n_kv][2][key_dim] in the KV dtype, which holds
// minima and maxima of its own values exactly.
// Thread-safety: all methods may be called concurrently. I/O happens outside the lock.
#ifndef QUIRE_KVSERVER_STORE_DIGEST_STORE_H_
#define QUIRE_KVSERVER_STORE_DIGEST_STORE_H_

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "common/base/counters.h"
#include "common/base/metrics.h"
#include "common/base/status.h"
#include "kvserver/store/bounded_cache.h"
#include "kvserver/store/database.h"
#include "kvserver/store/io_gate.h"
#include "kvserver/store/segment_record.h"
#include "kvserver/store/unit.h"

namespace quire::kvserver {

using DigestBytes = std::shared_ptr<const std::vector<std::byte>>;

class DigestStore {
 public:
  /// `database` and `gate`, which reads of the database pass, outlive the store.
  DigestStore(Database* database, uint64_t cache_bytes, IoGate* gate)
      : database_(database), gate_(gate), cache_(cache_bytes) {}

  /// Computes the digests of `payload`, [layers][pages][n_kv] units laid out as `record` says, over
  /// the rows that hold tokens, and adds them to `batch`.
  Status StagePut(const SegmentKey& key, const SegmentRecord& record,
                  std::span<const std::byte> payload, Database::Batch& batch);
  void StageErase(const SegmentKey& key, Database::Batch& batch);
  /// After a commit that erased or replaced the segment.
  void Forget(const SegmentKey& key, const SegmentRecord& record);

  /// NOT_FOUND when the segment has none, DATA_LOSS when they fail their checksum,
  /// RESOURCE_EXHAUSTED of the gate.
  StatusOr<DigestBytes> Read(const ExtentId& id, const SegmentRecord& record,
                             Priority priority = Priority::kNormal);

  /// digest_reads, digest_cache_hits, digest_bytes_cached.
  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  Database* const database_;
  IoGate* const gate_;
  BoundedCache<ExtentId, DigestBytes, ExtentIdHash> cache_;
  Counter reads_, hits_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_DIGEST_STORE_H_
