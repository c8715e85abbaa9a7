// SPDX-License-Identifier: Apache-2.0
//
// UnitReader: the read path. A unit in DRAM is returned in place, without its segment's record. A
// unit only on SSD is read by itself and checked against the record. It bypasses DRAM until the
// promotion policy promotes its extent. A read served from DRAM alone does not allocate.
//
// Units from DRAM are not verified before sending. The receiver verifies them and reports
// mismatches to Recheck (docs/design/0028-damage-in-memory.md). ReadVerified is for use on the
// server. An extent damaged in DRAM is dropped and read from SSD again. One without another copy is
// lost, and its segment damaged.
//
// Thread-safety: all methods may be called concurrently; the caller holds none of `writers`.
// `promotion_mutex_` is never held over I/O. A repair waits for the gate with the segment's lock
// held, never for that lock inside the gate. Errors: NOT_FOUND, INVALID_ARGUMENT (a layer or unit
// that the segment does not have), DATA_LOSS, RESOURCE_EXHAUSTED (of the gate).
#ifndef QUIRE_KVSERVER_STORE_READ_UNIT_READER_H_
#define QUIRE_KVSERVER_STORE_READ_UNIT_READER_H_

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/observe/counters.h"
#include "common/base/observe/health.h"
#include "common/base/observe/metrics.h"
#include "common/base/threads/mutex.h"
#include "kvserver/store/caller.h"
#include "kvserver/store/dram/dram_damage.h"
#include "kvserver/store/dram/dram_tier.h"
#include "kvserver/store/keyed_lock.h"
#include "kvserver/store/metadata/segment_catalog.h"
#include "kvserver/store/policy/eviction/prefill_cost.h"
#include "kvserver/store/policy/promotion_policy.h"
#include "kvserver/store/read/io_gate.h"
#include "kvserver/store/ssd/ssd_tier.h"
#include "kvserver/store/store_latencies.h"
#include "quire/status.h"

namespace quire::kvserver {

class UnitReader {
 public:
  /// Sources of reads; all outlive the reader. `writers` excludes promotion from put and delete of
  /// the same segment.
  struct Parts {
    SegmentCatalog* catalog = nullptr;
    DramTier* dram = nullptr;
    DramDamage* damage = nullptr;
    SsdTier* ssd = nullptr;
    KeyedLock* writers = nullptr;
    AlignedBufferPool* buffers = nullptr;  ///< For decoded units.
    IoGate* gate = nullptr;                ///< Passed by every call that reads from SSD.
    StoreLatencies* latencies = nullptr;
    Health* health = nullptr;       ///< Told of Trouble::kDamagedOnTheWay.
    PrefillCost prefill_cost = {};  ///< Cost of recomputing an extent.
  };
  UnitReader(const Parts& parts, std::unique_ptr<PromotionPolicy> promotion)
      : parts_(parts), promotion_(std::move(promotion)) {}

  /// See PageStore::ReadUnits.
  Status Read(const Caller& caller, std::span<const UnitAddress> units, const CodecSet& codecs,
              std::vector<UnitBytes>* out);

  /// See PageStore::ReadVerified.
  Status ReadVerified(const Caller& caller, std::span<const UnitAddress> units,
                      std::vector<VerifiedBytes>* out);
  /// See PageStore::Recheck.
  Status Recheck(const Caller& caller, std::span<const ReportedUnit> units);

  /// Verifies a whole extent in DRAM, and restores it from SSD when it is damaged. Returns true
  /// when it was. DATA_LOSS when it was damaged without another copy.
  StatusOr<bool> MendExtent(const Caller& caller, const ExtentId& id);

  /// Brings the missing extents of the segment to DRAM. RESOURCE_EXHAUSTED with a retry hint when
  /// one finds no room now.
  Status BringToDram(std::string_view tenant, const SegmentKey& key);

  /// promotions, promotions_refused, units_reported, units_reported_intact.
  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  /// A unit missing in DRAM, and its destination.
  struct Miss {
    UnitAddress address;
    SegmentRecordPtr record;
    UnitBytes* out = nullptr;
    bool promoted = false;
    Status failure = OkStatus();  ///< Its read found the bytes gone or damaged.
    ExtentId extent() const { return {address.segment, address.layer}; }
  };

  /// Fills the empty entries of `out`, and promotes extents.
  Status ReadMisses(const Caller& caller, std::span<const UnitAddress> units,
                    std::span<UnitBytes> out);
  /// As ReadMisses. Returns true when a segment was replaced meanwhile, and `out` is not filled.
  StatusOr<bool> TryMisses(const Caller& caller, std::span<const UnitAddress> units,
                           std::span<UnitBytes> out);
  StatusOr<IoGate::Pass> EnterGate(const Caller& caller) const;
  /// Returns one miss for each empty entry of `out`, ordered by extent.
  StatusOr<std::vector<Miss>> FindMisses(std::string_view tenant,
                                         std::span<const UnitAddress> units,
                                         std::span<UnitBytes> out);
  /// Promotes the extents that are worth it. REQUIRES: `misses` are ordered by extent.
  void PromoteDue(std::string_view tenant, std::span<Miss> misses);
  /// Decodes the units whose codec is not in `codecs`. Repairs damaged ones first.
  Status Decode(const Caller& caller, std::span<const UnitAddress> addresses,
                const CodecSet& codecs, std::span<UnitBytes> units);
  /// Tells operators of a unit that is intact here.
  void ReportDamageInTransit(const Caller& caller, const ReportedUnit& unit);
  /// A unit that did not match its checksum, as it is when its extent has been mended.
  StatusOr<UnitBytes> Mend(const Caller& caller, const UnitAddress& address);
  bool IsPromotionDue(const ExtentId& id);
  /// Promotes the extent, unless its segment is being written or deleted.
  bool Promote(std::string_view tenant, const ExtentId& id);
  /// REQUIRES: the segment's lock is held, and `known` was found under it.
  bool PromoteLocked(std::string_view tenant, const SegmentRecord& known, const ExtentId& id);
  /// Reads all misses concurrently. Bytes that are gone or damaged are the `failure` of their miss.
  Status ReadFromSsd(std::span<Miss> misses);
  /// Returns the unit if it is as put.
  StatusOr<UnitBytes> Checked(const SegmentRecord& record, SsdTier::UnitRead& read);
  /// Decides what the failure of a miss means. OK when the segment was replaced meanwhile, so that
  /// it has to be read again; NOT_FOUND when it was removed. Otherwise the bytes are lost, and the
  /// failure is returned.
  Status ExplainFailure(std::string_view tenant, const Miss& miss);
  /// Marks the segment as damaged, unless it was only in DRAM and has left it. Returns the error
  /// for readers. REQUIRES: the segment's lock is held, and `record` was found under it.
  Status MarkLost(const SegmentKey& key, const SegmentRecord& record, const Status& failure);

  const Parts parts_;
  Mutex promotion_mutex_;
  const std::unique_ptr<PromotionPolicy> promotion_ QUIRE_PT_GUARDED_BY(promotion_mutex_);
  Counter promotions_, refused_;
  Counter reported_, reported_intact_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_READ_UNIT_READER_H_
