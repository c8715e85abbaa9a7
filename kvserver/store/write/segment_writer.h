// SPDX-License-Identifier: Apache-2.0
//
// SegmentWriter: the write path. A segment is checked, charged to its tenant, taken in, committed,
// and published in DRAM. Intake encodes, checksums and digests extents into DRAM, if there is room,
// while earlier extents are being written to SSD. The digests follow them. Durability decides if
// the commit is synced. Concurrent syncs are shared.
//
// Under a write budget, a put that need not persist may stay only in DRAM. Its record and digests
// are committed, its extents are not written. The record of an object is kept in memory instead.
// Once the segment leaves DRAM or the store is closed, readers get NOT_FOUND. A persistent put of
// it, or of a segment that continues it, writes it out. A put without room in DRAM is written to
// SSD despite the budget.
//
// The first bytes under a key stand (docs/design/0027). A put of other bytes finds the stored ones,
// and replaces them only when they are known to be damaged or gone.
//
// A put holds its segment and the one before it, so neither is removed meanwhile. A marked
// segment that is put again gets another incarnation, so the older delete does not remove it.
//
// Thread-safety: all methods may be called concurrently. `writers` serialises writes of one
// segment. Errors: as PageStore::PutSegment.
#ifndef QUIRE_KVSERVER_STORE_WRITE_SEGMENT_WRITER_H_
#define QUIRE_KVSERVER_STORE_WRITE_SEGMENT_WRITER_H_

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/observe/metrics.h"
#include "common/base/threads/mutex.h"
#include "kvserver/store/dram/dram_damage.h"
#include "kvserver/store/dram/dram_tier.h"
#include "kvserver/store/keyed_lock.h"
#include "kvserver/store/metadata/database.h"
#include "kvserver/store/metadata/digest_store.h"
#include "kvserver/store/metadata/segment_catalog.h"
#include "kvserver/store/page_store.h"
#include "kvserver/store/payload/fault_points.h"
#include "kvserver/store/policy/admission_policy.h"
#include "kvserver/store/policy/room_sample.h"
#include "kvserver/store/space/segment_keeper.h"
#include "kvserver/store/space/space_accounts.h"
#include "kvserver/store/ssd/ssd_tier.h"
#include "kvserver/store/store_latencies.h"
#include "kvserver/store/write/put_request.h"
#include "quire/clock.h"
#include "quire/status.h"

namespace quire::kvserver {

class SegmentWriter {
 public:
  /// Targets of writes; all outlive the writer.
  struct Parts {
    Database* database = nullptr;
    SegmentCatalog* catalog = nullptr;
    DigestStore* digests = nullptr;
    DramTier* dram = nullptr;
    DramDamage* damage = nullptr;
    SsdTier* ssd = nullptr;
    KeyedLock* writers = nullptr;
    SpaceAccounts* space = nullptr;
    SegmentKeeper* keeper = nullptr;
    FaultPoints* faults = nullptr;  ///< May be null.
    Health* health = nullptr;
    StoreLatencies* latencies = nullptr;
    Clock* clock = nullptr;
    PrefillCost prefill_cost = {};  ///< Cost of recomputing an extent.
    std::string directory;          ///< The data directory, for messages.
  };
  /// Null `admission`: everything goes to SSD.
  SegmentWriter(const Parts& parts, std::unique_ptr<AdmissionPolicy> admission)
      : parts_(parts), admission_(std::move(admission)) {}

  /// See PageStore::PutSegment. REQUIRES: `salt` is that of `tenant`.
  StatusOr<PutSegmentResult> Put(std::string_view tenant, const TenantSalt& salt,
                                 const PutSegmentArgs& args);

  /// True when the segment of `record` can be read. A segment only in DRAM must be complete and is
  /// verified here, since there is no other copy; it is lost when damaged. REQUIRES: the caller
  /// does not hold its writer lock.
  bool IsReadable(const SegmentKey& key, const SegmentRecord& record) const;

  /// True when the segment of `record` is there. Bytes only in DRAM are not verified.
  bool IsHere(const SegmentKey& key, const SegmentRecord& record) const;

  /// puts, puts_existed, puts_differed, puts_dram_only.
  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  /// State of a segment that is about to be put.
  enum class Stored { kNot, kWhole, kDamaged, kDramOnly };
  using KnownRecord = std::optional<SegmentRecordPtr>;

  /// The extents of a segment only in DRAM. Empty when one of them has left.
  std::vector<ResidentPtr> OnlyCopy(const SegmentKey& key, const SegmentRecord& record) const;
  /// True when all extents are there and intact. Damaged ones are lost. REQUIRES: the caller holds
  /// the segment's writer lock.
  bool KeepIntact(const SegmentKey& key, const SegmentRecord& record) const;
  /// The record of a stored segment; nullopt when there is no readable one.
  StatusOr<KnownRecord> FindKnown(std::string_view tenant, const SegmentKey& key);
  Stored StateOf(const SegmentKey& key, const KnownRecord& known) const;
  /// Puts the segment. REQUIRES: the caller holds it and its writer lock.
  StatusOr<PutSegmentResult> PutHeld(std::string_view tenant, const SegmentKey& key,
                                     bool was_stored, const PutSegmentArgs& args);
  /// Answers a put that found the segment. REQUIRES: the caller holds the segment's writer lock.
  StatusOr<PutSegmentResult> AnswerStored(const SegmentKey& key, const SegmentRecord& stored,
                                          const SegmentRecord& put, const PutSegmentArgs& args);
  StatusOr<uint64_t> FirstToken(std::string_view tenant, const PutSegmentArgs& args);
  /// Makes all earlier puts durable.
  Status Sync();
  /// True when it goes to SSD now.
  bool Admit(const SegmentRecord& record, Durability durability);
  /// Makes room for the segment's metadata, on the file system and under the limit.
  Status MakeMetadataRoom(const SegmentRecord& record);
  /// Makes room on the file system, which others fill, too. Volumes never shrink, so evicted
  /// segments free only their metadata. Evicts nothing when that cannot suffice.
  Status MakeFileSystemRoom(uint64_t bytes);
  /// True when the last look at the free space is fresh, and showed far more than `bytes`.
  bool IsKnownToFit(uint64_t bytes) QUIRE_EXCLUDES(room_mutex_);
  void NoteFree(uint64_t free_bytes) QUIRE_EXCLUDES(room_mutex_);
  Status Write(const SegmentKey& key, SegmentIntake& intake, Durability durability, Stored before);
  /// Charges the tenant for the SSD bytes that `write` writes under the key, if any.
  Status WriteCharged(const SegmentKey& key, const SegmentRecord& record,
                      const std::function<Status()>& write);
  Status WriteToSsd(const SegmentKey& key, SegmentIntake& intake, bool sync);
  /// Returns false when DRAM has no room for all of it.
  StatusOr<bool> WriteToDramOnly(const SegmentKey& key, SegmentIntake& intake);
  /// Keeps the record of a segment whose bytes are only in DRAM: in the database, or that of an
  /// object in memory.
  Status RecordDramOnly(const SegmentKey& key, const SegmentIntake& intake);
  /// Reserves DRAM for the segment, and directs its extents there as far as there is room.
  DramTier::Room Reserve(const SegmentKey& key, SegmentIntake& intake);
  /// Cancels older deletes of the segments that the put continues. NOT_FOUND when one is gone
  /// already.
  Status CancelDeletes(std::string_view tenant, const PutSegmentArgs& args);
  /// Gives a marked segment that was put again another incarnation.
  Status Renew(const SegmentKey& key, const SegmentRecord& stored, bool sync);
  StatusOr<SsdTier::Change> StageOnSsd(std::span<const ExtentView> extents,
                                       const SsdTier::MakeExtent& make, bool sync,
                                       Database::Batch& batch);
  Status Commit(const SegmentKey& key, const SegmentRecord& record, Database::Batch& batch,
                bool sync);
  /// Makes a committed segment known to readers. REQUIRES: every tier has only its new bytes.
  void Publish(const SegmentKey& key, const SegmentRecord& record);
  void AddStored(const SegmentKey& key, const SegmentRecord& record);
  Status CommitBatch(Database::Batch& batch, bool sync);
  /// Reports the result of a disk write to operators. Returns `status`.
  Status Report(Status status);
  /// Writes out the segments of the chain ending with `tip` that are only in DRAM.
  Status PersistChain(std::string_view tenant, const SegmentKey& tip);
  Status PersistFromDram(std::string_view tenant, const SegmentKey& key);
  /// Writes out a segment that is only in DRAM. REQUIRES: the caller holds its writer lock.
  Status WriteOut(const SegmentKey& key, const SegmentRecord& record);
  /// Its verified bytes. DATA_LOSS when it is damaged, as there is no other copy.
  StatusOr<std::vector<std::byte>> ReadFromDram(const SegmentKey& key, const SegmentRecord& record);

  const Parts parts_;
  Mutex admission_mutex_;
  const std::unique_ptr<AdmissionPolicy> admission_ QUIRE_PT_GUARDED_BY(admission_mutex_);
  Mutex room_mutex_;
  RoomSample room_ QUIRE_GUARDED_BY(room_mutex_);  ///< Free space of the metadata's file system.
  Counter puts_, existed_, differed_, dram_only_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_WRITE_SEGMENT_WRITER_H_
