// SPDX-License-Identifier: Apache-2.0
//
// SegmentCatalog: the records of stored segments, and the chains they form, read through bounded
// caches. It also remembers which segments turned out to be damaged, so that the next put of the
// same bytes repairs them. Thread-safety: all methods may be called concurrently. I/O happens
// outside the locks. Errors: NOT_FOUND also for a segment of another tenant; DATA_LOSS for a
// damaged record.
#ifndef QUIRE_KVSERVER_STORE_METADATA_SEGMENT_CATALOG_H_
#define QUIRE_KVSERVER_STORE_METADATA_SEGMENT_CATALOG_H_

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "common/base/counters.h"
#include "common/base/health.h"
#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "kvserver/store/chain.h"
#include "kvserver/store/metadata/checked_cache.h"
#include "kvserver/store/metadata/database.h"
#include "kvserver/store/metadata/segment_record.h"
#include "kvserver/store/policy/quota_table.h"
#include "quire/status.h"

namespace quire::kvserver {

using SegmentRecordPtr = std::shared_ptr<const SegmentRecord>;

/// NOT_FOUND that names the segment.
Status NotStored(const SegmentKey& key);

class SegmentCatalog {
 public:
  /// `database` outlives the catalog, and so does `health`, which may be null; `cache_bytes` bounds
  /// the cached records and chains together.
  SegmentCatalog(Database* database, uint64_t cache_bytes, Health* health = nullptr);

  /// A segment as its record says; of a damaged record only the key is known.
  struct Listed {
    SegmentKey key;
    std::string tenant;
    SegmentKey parent;
    uint64_t bytes = 0;  ///< As stored.
    uint64_t incarnation = 0;
    int64_t last_use_micros = 0;  ///< By the wall clock: when it was put, or what the caller says.
  };
  struct Totals {
    std::vector<Listed> segments;
    std::vector<SegmentKey> dram_only;  ///< Gone with the DRAM they were in; not listed above.
    /// On SSD, and of no use without the contexts that they were private to: tenant and key.
    std::vector<std::pair<std::string, SegmentKey>> private_segments;
    /// With another number of layers on SSD than their records say.
    std::vector<SegmentKey> incomplete;
  };
  using ExtentCounts = std::unordered_map<SegmentKey, uint32_t, SegmentKeyHash>;
  /// Reads every record, for the accounting at open. A damaged record counts as nothing, as reading
  /// its segment does; FAILED_PRECONDITION for a record of a newer version.
  /// `whole_extents`: of each segment, on SSD.
  StatusOr<Totals> CountAll(const ExtentCounts& whole_extents);
  /// Drops the records of segments that were in DRAM only.
  [[nodiscard]] Status Drop(const std::vector<SegmentKey>& dram_only);

  StatusOr<SegmentRecordPtr> Find(std::string_view tenant, const SegmentKey& key);
  /// The chain that ends with `tip`.
  StatusOr<ChainPtr> Resolve(std::string_view tenant, const SegmentKey& tip);

  void StagePut(const SegmentKey& key, const SegmentRecord& record, Database::Batch& batch);
  void StageErase(const SegmentKey& key, Database::Batch& batch);
  /// After the commit of StagePut; the segment is whole again if it was damaged.
  void Remember(const SegmentKey& key, SegmentRecordPtr record);
  /// After the commit of StageErase. `was_private`: no chain goes through it.
  void Forget(const SegmentKey& key, bool was_private);

  /// The segment's stored bytes failed a check, or are gone.
  void MarkDamaged(const SegmentKey& key) { MarkDamaged({&key, 1}, ""); }
  /// The same of several; `detail` tells operators of all of them.
  void MarkDamaged(std::span<const SegmentKey> keys, std::string_view detail);
  /// The same of bytes that were read as `record` says, by a caller without the segment's writer
  /// lock: nothing is marked when others have come in their place meanwhile.
  void MarkDamaged(const SegmentKey& key, const SegmentRecord& record);
  bool IsDamaged(const SegmentKey& key) const;
  bool HasDamaged() const;

  /// Walks of the records and of the chains that are in memory.
  std::vector<std::unique_ptr<CacheWalk>> WalkCached();

  /// segments_damaged, segments_repaired, catalog_bytes_cached.
  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  /// Tells operators of damage that was not known.
  void Tell(const SegmentKey& key, std::string_view detail);
  struct CachedChain {
    std::string tenant;
    ChainPtr chain;
  };
  static uint32_t ChecksumOf(const CachedChain& cached);
  StatusOr<ChainPtr> Walk(std::string_view tenant, const SegmentKey& tip);
  /// It is whole, or gone for good. How many there were: 0 or 1.
  size_t ForgetDamage(const SegmentKey& key);

  Database* const database_;
  Health* const health_;  ///< May be null.
  CheckedCache<SegmentKey, SegmentRecordPtr, SegmentKeyHash> records_;
  CheckedCache<SegmentKey, CachedChain, SegmentKeyHash> chains_;
  mutable Mutex damaged_mutex_;
  std::unordered_set<SegmentKey, SegmentKeyHash> damaged_ QUIRE_GUARDED_BY(damaged_mutex_);
  Counter repaired_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_METADATA_SEGMENT_CATALOG_H_
