// SPDX-License-Identifier: Apache-2.0
//
// SegmentWriter: the write path. A segment is checked, charged to its tenant, taken in (encoded,
// checksummed and digested) to where DRAM has room for it while what was taken in before is on its
// way to SSD, committed, and shown in DRAM. Durability decides whether the commit is synced; puts
// that wait for a sync at the same time share one.
//
// Under a write budget, what need not persist may be kept in DRAM only: its record and digests are
// committed, its extents are not written. It is gone when it leaves DRAM or the store is closed,
// and readers then get NOT_FOUND; a put that persists, of it or of a segment that continues it,
// writes it out. What finds no room in DRAM is written to SSD whatever the budget says.
//
// The first bytes under a key stand (docs/design/0027): a put of others finds the stored ones,
// unless they are known to be damaged or gone; then it replaces them.
//
// A put holds its segment and the one before it, so that nothing is removed under it. What it found
// and a delete had wanted gone gets another incarnation, so that the older delete does not undo it.
//
// Thread-safety: all methods may be called concurrently; writes of one segment exclude each other
// through `writers`. Errors: as PageStore::PutSegment.
#ifndef QUIRE_KVSERVER_STORE_SEGMENT_WRITER_H_
#define QUIRE_KVSERVER_STORE_SEGMENT_WRITER_H_

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "kvserver/store/dram/dram_damage.h"
#include "kvserver/store/dram/dram_tier.h"
#include "kvserver/store/keyed_lock.h"
#include "kvserver/store/metadata/database.h"
#include "kvserver/store/metadata/digest_store.h"
#include "kvserver/store/metadata/segment_catalog.h"
#include "kvserver/store/page_store.h"
#include "kvserver/store/payload/fault_points.h"
#include "kvserver/store/policy/admission_policy.h"
#include "kvserver/store/put_request.h"
#include "kvserver/store/segment_keeper.h"
#include "kvserver/store/space_accounts.h"
#include "kvserver/store/ssd/ssd_tier.h"
#include "kvserver/store/store_latencies.h"
#include "quire/clock.h"
#include "quire/status.h"

namespace quire::kvserver {

class SegmentWriter {
 public:
  /// What it writes to; all outlive the writer.
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
    PrefillCost prefill_cost = {};  ///< What it costs to compute an extent again.
    std::string directory;          ///< The data directory, for messages.
  };
  /// `admission` null: everything goes to SSD.
  SegmentWriter(const Parts& parts, std::unique_ptr<AdmissionPolicy> admission)
      : parts_(parts), admission_(std::move(admission)) {}

  /// See PageStore::PutSegment. REQUIRES: `salt` is that of `tenant`.
  StatusOr<PutSegmentResult> Put(std::string_view tenant, const TenantSalt& salt,
                                 const PutSegmentArgs& args);

  /// Whether what `record` stands for can be read: what is in DRAM only is gone when it left, and
  /// verified here, since no other copy would come in its place; it is lost when it is damaged. The
  /// caller does not hold the segment's writer lock.
  bool IsThere(const SegmentKey& key, const SegmentRecord& record) const;

  /// puts, puts_existed, puts_differed, puts_dram_only.
  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  /// How a segment that is about to be put is stored now.
  enum class Stored { kNot, kWhole, kDamaged, kDramOnly };
  using KnownRecord = std::optional<SegmentRecordPtr>;

  /// The extents of a segment that is in DRAM only; none when one of them has left.
  std::vector<ResidentPtr> OnlyCopy(const SegmentKey& key, const SegmentRecord& record) const;
  /// Whether they are all there and intact. What is damaged is lost. REQUIRES: the caller holds the
  /// segment's writer lock.
  bool KeepIntact(const SegmentKey& key, const SegmentRecord& record) const;
  /// The record of a stored segment; none when there is none that can be read.
  StatusOr<KnownRecord> FindKnown(std::string_view tenant, const SegmentKey& key);
  Stored HowStored(const SegmentKey& key, const KnownRecord& known) const;
  /// Puts the segment, which the caller holds and has the writer lock of.
  StatusOr<PutSegmentResult> PutHeld(std::string_view tenant, const SegmentKey& key,
                                     const PutSegmentArgs& args);
  /// Answers a put that found the segment. REQUIRES: the caller holds the segment's writer lock.
  StatusOr<PutSegmentResult> TakeStored(const SegmentKey& key, const SegmentRecord& stored,
                                        const SegmentRecord& put, const PutSegmentArgs& args);
  StatusOr<uint64_t> FirstToken(std::string_view tenant, const PutSegmentArgs& args);
  /// Everything that was put so far is durable when this returns OK.
  Status Sync();
  /// Whether it goes to SSD now.
  bool Admit(const SegmentRecord& record, Durability durability);
  /// Sees to it that the metadata has room for the segment's, on the file system and under the
  /// limit.
  Status MakeMetadataRoom(const SegmentRecord& record);
  /// The same of the file system, which others fill, too. Volumes stay as they are: what segments
  /// that are evicted give back is their metadata. Nothing is evicted when that cannot be enough.
  Status MakeFileSystemRoom(uint64_t bytes);
  Status Write(const SegmentKey& key, SegmentIntake& intake, Durability durability, Stored before);
  /// Charges the tenant with what `write` writes to SSD under the key, if it does.
  Status Charged(const SegmentKey& key, const SegmentRecord& record,
                 const std::function<Status()>& write);
  Status WriteToSsd(const SegmentKey& key, SegmentIntake& intake, bool sync);
  /// False when DRAM has no room for all of it.
  StatusOr<bool> WriteToDramOnly(const SegmentKey& key, SegmentIntake& intake);
  /// Room for the segment in DRAM, and has its extents taken in there as far as there is any.
  DramTier::Room Reserve(const SegmentKey& key, SegmentIntake& intake);
  /// Takes older deletes back of the segments that the put continues. NOT_FOUND when one of them is
  /// gone already.
  Status TakeBackDelete(std::string_view tenant, const PutSegmentArgs& args);
  /// A delete wanted the segment gone before it was put again: from now on it is another one.
  Status Renew(const SegmentKey& key, const SegmentRecord& stored, bool sync);
  StatusOr<SsdTier::Change> StageOnSsd(std::span<const ExtentView> extents,
                                       const SsdTier::MakeExtent& make, bool sync,
                                       Database::Batch& batch);
  Status Commit(const SegmentKey& key, const SegmentRecord& record, Database::Batch& batch,
                bool sync);
  Status CommitBatch(Database::Batch& batch, bool sync);
  /// Tells operators how something that had to reach the disk ended; the status.
  Status Told(Status status);
  /// Writes out what is in DRAM only of the chain that ends with `tip`.
  Status PersistChain(std::string_view tenant, const SegmentKey& tip);
  Status PersistFromDram(std::string_view tenant, const SegmentKey& key);
  /// Writes out a segment that is in DRAM only. REQUIRES: the caller holds its writer lock.
  Status WriteOut(const SegmentKey& key, const SegmentRecord& record);
  /// Its bytes, verified. DATA_LOSS when it is damaged: it is nowhere else.
  StatusOr<std::vector<std::byte>> FromDram(const SegmentKey& key, const SegmentRecord& record);

  const Parts parts_;
  Mutex admission_mutex_;
  const std::unique_ptr<AdmissionPolicy> admission_ QUIRE_PT_GUARDED_BY(admission_mutex_);
  Counter puts_, existed_, differed_, dram_only_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_SEGMENT_WRITER_H_
