// SPDX-License-Identifier: Apache-2.0
//
// SsdTier: extents in the payload volumes, with one record each in the database. Any unit is read
// by itself at the speed of the device (docs/design/0005-payload-files.md). The digests of a
// segment are an extent like others, under kDigestsLayer.
//
// Stage* prepare a change: bytes are written, and records are added to a batch that the caller
// commits with its own. The change is invisible until that commit. Space that it wrote or replaced
// is freed once the commit's result is known and cannot be undone by a power failure
// (unsynced_changes.h).
//
// Ownership: database and payload outlive the tier; slices own their bytes. Thread-safety: all
// methods may be called concurrently. Callers serialise changes of one extent. No lock is held over
// I/O. Errors: as Database and PayloadStore (extent_view.h).
#ifndef QUIRE_KVSERVER_STORE_SSD_SSD_TIER_H_
#define QUIRE_KVSERVER_STORE_SSD_SSD_TIER_H_

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/observe/metrics.h"
#include "kvserver/store/extent_view.h"
#include "kvserver/store/metadata/checked_cache.h"
#include "kvserver/store/metadata/database.h"
#include "kvserver/store/metadata/unsynced_changes.h"
#include "kvserver/store/payload/payload_store.h"
#include "kvserver/store/ssd/extent_lookup.h"
#include "kvserver/store/ssd/extent_record.h"

namespace quire::kvserver {

class SsdTier {
 public:
  /// Both outlive the tier. `record_cache_bytes` bounds the memory of cached records.
  SsdTier(Database* database, PayloadStore* payload, uint64_t record_cache_bytes)
      : database_(database), payload_(payload), records_(record_cache_bytes, &ChecksumOf) {}

  /// ssd_unit_reads, ssd_read_bytes, ssd_write_bytes (payload), ssd_checksum_failures,
  /// ssd_record_bytes_cached.
  void VisitMetrics(MetricsVisitor& visit) const;

  /// A unit to read, and its result.
  struct UnitRead {
    ExtentId id;
    uint32_t unit = 0;
    StatusOr<UnitBytes> result{Status(StatusCode::kUnknown, "")};  ///< Made without allocating.
  };
  /// Reads all units concurrently. Each has its own result. Consecutive reads of one extent look
  /// its record up once.
  void ReadUnits(std::span<UnitRead> reads);

  /// Marks the space that records name as used, before any write. Unreadable records and those with
  /// taken space are erased; their segments count as damaged.
  struct Recovered {
    uint64_t extents = 0;  ///< Those of layers, here and below.
    uint64_t dropped = 0;
    uint64_t lost_bytes = 0;  ///< Bytes in missing or truncated volumes.
    /// Number of complete extents of each segment, as far as known without reading.
    std::unordered_map<SegmentKey, uint32_t, SegmentKeyHash> whole_extents = {};
    /// Incomplete segments, put without a sync before the server or its machine stopped. Their
    /// extents are erased; the caller erases the rest of them.
    std::vector<SegmentKey> torn = {};
  };
  StatusOr<Recovered> Recover();

  class Change;
  /// Makes bytes and checksums of the put's extent with that number. May be called repeatedly.
  using MakeExtent = std::function<Status(size_t)>;
  /// Writes the extents' bytes, durably with `sync`, and adds their records to `batch`. The batch
  /// must be committed with the same `sync`. Extents are made in order, each while earlier ones are
  /// being written. Only the sizes of a view are read before that.
  [[nodiscard]] StatusOr<Change> StagePut(std::span<const ExtentView> extents,
                                          const MakeExtent& make, bool sync,
                                          Database::Batch& batch);
  /// Adds the deletion of the segment's records to `batch`.
  [[nodiscard]] StatusOr<Change> StageErase(const SegmentKey& segment, Database::Batch& batch);

  /// Makes all earlier puts and erasures durable.
  [[nodiscard]] Status Sync();
  /// Frees space that waits for a durable erasure. Costs nothing when none waits.
  [[nodiscard]] Status ReclaimSpace();

  /// A walk of the extents' records that are in memory.
  std::unique_ptr<CacheWalk> WalkCached() { return records_.Walk(); }

  /// Database key of an extent's record.
  static std::string RecordKey(const ExtentId& id);

 private:
  struct Pending;
  using LookupPtr = std::shared_ptr<const ExtentLookup>;
  static uint32_t ChecksumOf(const LookupPtr& lookup) { return lookup->Checksum(); }
  StatusOr<ExtentRecord> FindRecord(const ExtentId& id);
  /// Returns the record with the places of its units, from the cache when possible.
  StatusOr<LookupPtr> LookUp(const ExtentId& id);
  /// Plans the read of a unit: its source and a buffer.
  StatusOr<Pending> Plan(UnitRead& read, LookupPtr from);
  /// Returns the unpacked unit of a read, if it matches its checksum.
  StatusOr<UnitBytes> Finished(const ReadRequest& request, Pending& pending,
                               EntropyDecoder& decoder);
  StatusOr<UnitBytes> Verified(Pending& pending, EntropyDecoder& decoder);
  /// Erases the extents of `segment`, without a sync.
  Status Erase(const SegmentKey& segment);
  /// Bounds the bytes that wait for a sync, before `bytes` more are written.
  Status MakeRoom(uint64_t bytes);
  /// Calls `source` for a new stream of spans at every try.
  StatusOr<Location> WritePayload(uint64_t bytes, const std::function<SpanSource()>& source);
  /// True when every unit of a segment's extents can be read and matches its checksum.
  StatusOr<bool> IsWhole(const SegmentKey& segment);
  /// Erases the extents of incomplete segments that were put without a sync, and makes the others
  /// durable.
  Status RecoverUnsynced(Recovered* recovered);

  Database* const database_;
  PayloadStore* const payload_;
  CheckedCache<ExtentId, LookupPtr, ExtentIdHash> records_;
  UnsyncedChanges unsynced_;
  Counter unit_reads_, read_bytes_, write_bytes_, checksum_failures_;
};

/// Space that depends on a commit. `written` is freed when the commit failed, `replaced` when it
/// succeeded. Both wait until the result is durable, unless the change was never to be committed.
class SsdTier::Change {
 public:
  explicit Change(SsdTier* tier) : tier_(tier) {}
  ~Change();
  Change(Change&& other) noexcept
      : tier_(std::exchange(other.tier_, nullptr)),
        is_staged_(other.is_staged_),
        is_sync_(other.is_sync_),
        written_(std::move(other.written_)),
        replaced_(std::move(other.replaced_)),
        notes_(std::move(other.notes_)),
        taken_(std::move(other.taken_)) {}
  Change& operator=(Change&&) = delete;

  /// Call after the batch was committed.
  void Committed();

 private:
  friend class SsdTier;
  SsdTier* tier_;           ///< Null when nothing is left to decide.
  bool is_staged_ = false;  ///< A commit may be tried.
  bool is_sync_ = false;    ///< The commit is durable.
  std::vector<Location> written_;
  std::vector<std::pair<ExtentId, Location>> replaced_;
  UnsyncedChanges::Notes notes_;  ///< Notes of payload written without a sync.
  UnsyncedChanges::Taken taken_;  ///< Changes that become durable with this one.
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_SSD_SSD_TIER_H_
