// SPDX-License-Identifier: Apache-2.0
//
// SsdTier: extents in the payload volumes, found through one record each in the database, so that
// any unit is read by itself at the speed of the device (docs/design/0005-payload-files.md).
//
// Stage* prepare a change instead of making it: bytes are written and records are added to a batch,
// which the caller commits together with its own. Until that commit nothing of it can be seen; what
// a change wrote or replaced is given back when it is known how the commit ended, and that no power
// failure can undo it (unsynced_changes.h).
//
// Ownership: database and payload outlive the tier; slices own what they show.
// Thread-safety: all methods may be called concurrently; callers exclude changes of the same extent
// from each other. No lock is held over I/O. Errors: as Database and PayloadStore (extent_view.h).
#ifndef QUIRE_KVSERVER_STORE_SSD_SSD_TIER_H_
#define QUIRE_KVSERVER_STORE_SSD_SSD_TIER_H_

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/metrics.h"
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
  /// Both outlive the tier. `record_cache_bytes` bounds the extents' records kept in memory.
  SsdTier(Database* database, PayloadStore* payload, uint64_t record_cache_bytes)
      : database_(database), payload_(payload), records_(record_cache_bytes, &ChecksumOf) {}

  /// ssd_unit_reads, ssd_read_bytes, ssd_write_bytes (payload), ssd_checksum_failures,
  /// ssd_record_bytes_cached.
  void VisitMetrics(MetricsVisitor& visit) const;

  /// A unit to read, and what came of it.
  struct UnitRead {
    ExtentId id;
    uint32_t unit = 0;
    StatusOr<UnitBytes> result{Status(StatusCode::kUnknown, "")};  ///< Made without allocating.
  };
  /// Reads all of them at once; each has its own result. Reads of one extent that follow each other
  /// look its record up once.
  void ReadUnits(std::span<UnitRead> reads);

  /// Marks what the records name as used, before anything is written. Records that cannot be read
  /// or whose space is taken are erased: their segments count as damaged from then on.
  struct Recovered {
    uint64_t extents = 0;
    uint64_t dropped = 0;
    uint64_t lost_bytes = 0;  ///< Of volumes that are missing or were cut.
    /// Extents of each segment of which nothing is lost, as far as that can be told without
    /// reading.
    std::unordered_map<SegmentKey, uint32_t, SegmentKeyHash> whole_extents = {};
    /// Segments that were put without a sync before the server or its machine stopped, and are not
    /// whole. Their extents are erased; the caller erases the rest of them.
    std::vector<SegmentKey> torn = {};
  };
  StatusOr<Recovered> Recover();

  class Change;
  /// Makes what the extent of that number in a put shows, bytes and checksums; may be asked more
  /// than once.
  using MakeExtent = std::function<Status(size_t)>;
  /// Writes the extents' bytes, durable at once with `sync`, and adds their records to `batch`,
  /// which is to be committed with the same `sync`. Each extent is made, in their order, while
  /// those before it are being written; of its views only the sizes are looked at before.
  [[nodiscard]] StatusOr<Change> StagePut(std::span<const ExtentView> extents,
                                          const MakeExtent& make, bool sync,
                                          Database::Batch& batch);
  /// Adds the deletion of the segment's records to `batch`.
  [[nodiscard]] StatusOr<Change> StageErase(const SegmentKey& segment, Database::Batch& batch);

  /// Everything that was put and erased so far is durable when this returns OK.
  [[nodiscard]] Status Sync();
  /// Makes space usable that waits for its erasure to be durable. Free when none waits.
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
  /// The same with where its units are, from memory when a recent call read it.
  StatusOr<LookupPtr> LookUp(const ExtentId& id);
  /// Plans the read of a unit: where from, and a buffer for it.
  StatusOr<Pending> Plan(UnitRead& read, LookupPtr from);
  /// Result of a read: the unit, unpacked, when it matches its checksum.
  StatusOr<UnitBytes> Finished(const ReadRequest& request, Pending& pending,
                               EntropyDecoder& decoder);
  StatusOr<UnitBytes> Verified(Pending& pending, EntropyDecoder& decoder);
  /// Erases the extents of `segment`, without a sync.
  Status Erase(const SegmentKey& segment);
  /// Keeps the bytes that wait for a sync within bounds, before `bytes` more are written.
  Status MakeRoom(uint64_t bytes);
  /// `source` is asked for a new stream of spans for every try.
  StatusOr<Location> WritePayload(uint64_t bytes, const std::function<SpanSource()>& source);
  /// Whether every unit of a segment's extents can be read and matches its checksum.
  StatusOr<bool> IsWhole(const SegmentKey& segment);
  /// Erases the extents of segments that were put without a sync and are not whole, and makes the
  /// others durable.
  Status RecoverUnsynced(Recovered* recovered);

  Database* const database_;
  PayloadStore* const payload_;
  CheckedCache<ExtentId, LookupPtr, ExtentIdHash> records_;
  UnsyncedChanges unsynced_;
  Counter unit_reads_, read_bytes_, write_bytes_, checksum_failures_;
};

/// Space that hangs on a commit: `written` goes back when it did not happen, `replaced` when it
/// did; both wait for a commit that is durable, but for what was never to be committed.
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

  /// The batch was committed.
  void Committed();

 private:
  friend class SsdTier;
  SsdTier* tier_;           ///< Null when nothing is left to decide.
  bool is_staged_ = false;  ///< A commit may be tried.
  bool is_sync_ = false;    ///< The commit is a durable one.
  std::vector<Location> written_;
  std::vector<std::pair<ExtentId, Location>> replaced_;
  UnsyncedChanges::Notes notes_;  ///< Of what was written without a sync.
  UnsyncedChanges::Taken taken_;  ///< What becomes durable with this change.
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_SSD_SSD_TIER_H_
