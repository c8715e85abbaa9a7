// SPDX-License-Identifier: Apache-2.0
//
// SsdTier: extents in the payload volumes, found through one record each in the database, so that
// any unit is read by itself at the speed of the device (docs/design/0005-payload-files.md).
//
// Stage* prepare a change instead of making it: bytes are written and records are added to a batch,
// which the caller commits together with its own. Until that commit nothing of it can be seen; what
// a change wrote or replaced is given back when it is known how the commit ended.
//
// Ownership: database and payload outlive the tier; slices own what they show.
// Thread-safety: all methods may be called concurrently; callers exclude changes of the same extent
// from each other. No lock is held over I/O. Errors: as Tier, Database and PayloadStore.
#ifndef QUIRE_KVSERVER_STORE_SSD_TIER_H_
#define QUIRE_KVSERVER_STORE_SSD_TIER_H_

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kvserver/store/bounded_cache.h"
#include "kvserver/store/database.h"
#include "kvserver/store/extent_record.h"
#include "kvserver/store/payload/payload_store.h"
#include "kvserver/store/tier.h"

namespace quire::kvserver {

class SsdTier final : public Tier {
 public:
  /// Both outlive the tier. `record_cache_bytes` bounds the extents' records kept in memory.
  SsdTier(Database* database, PayloadStore* payload, uint64_t record_cache_bytes)
      : database_(database), payload_(payload), records_(record_cache_bytes) {}

  Status Put(std::span<const ExtentView> extents) override;
  StatusOr<UnitBytes> ReadUnit(const ExtentId& id, uint32_t unit) override;
  StatusOr<bool> Has(const ExtentId& id) override;
  Status Erase(const SegmentKey& segment) override;
  /// ssd_unit_reads, ssd_read_bytes, ssd_write_bytes (payload), ssd_checksum_failures,
  /// ssd_record_bytes_cached.
  void VisitMetrics(MetricsVisitor& visit) const override;

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
  };
  StatusOr<Recovered> Recover();

  class Change;
  /// Writes the extents' bytes, durable at once with `sync`, and adds their records to `batch`.
  [[nodiscard]] StatusOr<Change> StagePut(std::span<const ExtentView> extents, bool sync,
                                          Database::Batch& batch);
  /// Adds the deletion of the segment's records to `batch`.
  [[nodiscard]] StatusOr<Change> StageErase(const SegmentKey& segment, Database::Batch& batch);

  /// Everything that was put so far is as durable as its records can be.
  [[nodiscard]] Status Sync() { return payload_->Sync(); }

  /// Database key of an extent's record.
  static std::string RecordKey(const ExtentId& id);

 private:
  struct Lookup;
  struct Pending;
  using LookupPtr = std::shared_ptr<const Lookup>;
  StatusOr<ExtentRecord> FindRecord(const ExtentId& id);
  /// The same with where its units are, from memory when a recent call read it.
  StatusOr<LookupPtr> LookUp(const ExtentId& id);
  /// Where to read a unit from, and a buffer to read it into.
  StatusOr<Pending> Plan(UnitRead& read, LookupPtr from);
  /// The unit that was read, unpacked, when it matches its checksum.
  StatusOr<UnitBytes> Verified(Pending pending, EntropyDecoder& decoder);
  Status Finish(Database::Batch& batch, StatusOr<Change> change);

  Database* const database_;
  PayloadStore* const payload_;
  BoundedCache<ExtentId, LookupPtr, ExtentIdHash> records_;
  Counter unit_reads_, read_bytes_, write_bytes_, checksum_failures_;
};

/// Space that hangs on a commit: `written` goes back when it did not happen, `replaced` when it
/// did.
class SsdTier::Change {
 public:
  explicit Change(SsdTier* tier) : tier_(tier) {}
  ~Change();
  Change(Change&& other) noexcept
      : tier_(std::exchange(other.tier_, nullptr)),
        written_(std::move(other.written_)),
        replaced_(std::move(other.replaced_)) {}
  Change& operator=(Change&&) = delete;

  /// The batch was committed.
  void Committed();

 private:
  friend class SsdTier;
  SsdTier* tier_;  ///< Null when nothing is left to decide.
  std::vector<Location> written_;
  std::vector<std::pair<ExtentId, Location>> replaced_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_SSD_TIER_H_
