// SPDX-License-Identifier: Apache-2.0
//
// SegmentCatalog: the records of stored segments and the chains they form, read through bounded
// caches. It also remembers damaged segments, so that the next put of the same bytes repairs them.
// Thread-safety: all methods may be called concurrently. I/O happens outside the locks. Errors:
// NOT_FOUND also for a segment of another tenant; DATA_LOSS for a damaged record.
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

#include "common/base/observe/counters.h"
#include "common/base/observe/health.h"
#include "common/base/observe/metrics.h"
#include "common/base/threads/mutex.h"
#include "kvserver/store/chain.h"
#include "kvserver/store/metadata/checked_cache.h"
#include "kvserver/store/metadata/database.h"
#include "kvserver/store/metadata/segment_record.h"
#include "kvserver/store/policy/quota_table.h"
#include "quire/status.h"

namespace quire::kvserver {

using SegmentRecordPtr = std::shared_ptr<const SegmentRecord>;

/// NOT_FOUND naming the segment.
Status NotStored(const SegmentKey& key);

class SegmentCatalog {
 public:
  /// `database` and `health` outlive the catalog; `health` may be null. `cache_bytes` bounds the
  /// cached records and chains together, and once more the records that are in memory alone.
  SegmentCatalog(Database* database, uint64_t cache_bytes, Health* health = nullptr);

  /// A segment according to its record. A damaged record has only its key.
  struct Listed {
    SegmentKey key;
    std::string tenant;
    SegmentKey parent;
    uint64_t bytes = 0;  ///< Stored bytes.
    uint64_t incarnation = 0;
    int64_t last_use_micros = 0;  ///< Wall-clock time of the put, or as the caller says.
    bool listed = false;          ///< Look-ups find it.
  };
  struct Totals {
    std::vector<Listed> segments;
    std::vector<SegmentKey> dram_only;  ///< Lost with the DRAM that held them; not listed above.
    /// On SSD, but private to contexts that are gone: tenant and key.
    std::vector<std::pair<std::string, SegmentKey>> private_segments;
    /// Segments with a wrong number of layers on SSD.
    std::vector<SegmentKey> incomplete;
  };
  using ExtentCounts = std::unordered_map<SegmentKey, uint32_t, SegmentKeyHash>;
  /// Reads every record, for the accounting at open. A damaged record counts as nothing.
  /// FAILED_PRECONDITION for a record of a newer version. `whole_extents`: extents of each segment
  /// on SSD.
  StatusOr<Totals> CountAll(const ExtentCounts& whole_extents);
  /// Drops the records of segments that were only in DRAM.
  [[nodiscard]] Status Drop(const std::vector<SegmentKey>& dram_only);

  StatusOr<SegmentRecordPtr> Find(std::string_view tenant, const SegmentKey& key);
  /// As Find; NOT_FOUND also for the segment of an object.
  StatusOr<SegmentRecordPtr> FindPages(std::string_view tenant, const SegmentKey& key);
  /// Returns the chain that ends with `tip`.
  StatusOr<ChainPtr> Resolve(std::string_view tenant, const SegmentKey& tip);

  void StagePut(const SegmentKey& key, const SegmentRecord& record, Database::Batch& batch);
  void StageErase(const SegmentKey& key, Database::Batch& batch);
  /// Caches a record after the commit of StagePut. Clears damage of the segment.
  void Remember(const SegmentKey& key, SegmentRecordPtr record);
  /// True while there is room for a record in memory alone (docs/design/0060).
  bool HasRoomInMemory() const { return in_memory_.used_bytes() < in_memory_limit_; }
  /// Keeps a record in memory alone, until it is replaced or forgotten, or the store is closed. For
  /// segments that end with the store. Clears damage of the segment.
  void KeepInMemory(const SegmentKey& key, SegmentRecordPtr record);
  bool IsInMemory(const SegmentKey& key) { return in_memory_.Find(key).has_value(); }
  /// The segments of such records, in no order.
  std::vector<SegmentKey> ListInMemory() const { return in_memory_.Keys(); }
  /// Call after the commit of StageErase. `was_private`: no chain contains the segment.
  void Forget(const SegmentKey& key, bool was_private);

  /// Marks a segment whose stored bytes failed a check, or are gone. REQUIRES: the caller holds the
  /// segment's writer lock, so that no put or removal of it is half done.
  void MarkDamaged(const SegmentKey& key) { MarkDamaged({&key, 1}, ""); }
  /// Marks several segments; `detail` covers all of them, for operators.
  void MarkDamaged(std::span<const SegmentKey> keys, std::string_view detail);
  bool IsDamaged(const SegmentKey& key) const;
  uint64_t NumDamaged() const;
  bool HasDamaged() const { return NumDamaged() > 0; }

  /// Walks of the records and of the chains that are in memory.
  std::vector<std::unique_ptr<CacheWalk>> WalkCached();

  /// segments_damaged, segments_repaired, catalog_bytes_cached, catalog_bytes_in_memory.
  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  /// Reports new damage to operators.
  void Tell(const SegmentKey& key, std::string_view detail);
  struct CachedChain {
    std::string tenant;
    ChainPtr chain;
  };
  static uint32_t ChecksumOf(const CachedChain& cached);
  StatusOr<ChainPtr> Walk(std::string_view tenant, const SegmentKey& tip);
  /// Clears damage of a segment that is whole or gone. Returns the number cleared: 0 or 1.
  size_t ForgetDamage(const SegmentKey& key);

  Database* const database_;
  Health* const health_;  ///< May be null.
  const uint64_t in_memory_limit_;
  CheckedCache<SegmentKey, SegmentRecordPtr, SegmentKeyHash> records_;
  /// Records that the database does not have. Drops none by itself.
  CheckedCache<SegmentKey, SegmentRecordPtr, SegmentKeyHash> in_memory_;
  CheckedCache<SegmentKey, CachedChain, SegmentKeyHash> chains_;
  mutable Mutex damaged_mutex_;
  std::unordered_set<SegmentKey, SegmentKeyHash> damaged_ QUIRE_GUARDED_BY(damaged_mutex_);
  Counter repaired_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_METADATA_SEGMENT_CATALOG_H_
