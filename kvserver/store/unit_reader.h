// SPDX-License-Identifier: Apache-2.0
//
// UnitReader: the read path. A unit in DRAM is handed out in place, without a look at the segment's
// record; one that is only on SSD is read by itself, checked against that record, and served around
// DRAM until the promotion policy finds its extent worth a place there. When everything is in DRAM
// nothing is allocated.
//
// Units in DRAM are not verified for a hand-out: whoever receives them does that, and has them
// rechecked when they do not match (docs/design/0028-damage-in-memory.md). For use on the server
// there is ReadVerified. However damage in DRAM is found, the extent is mended in one place: it is
// dropped and read from SSD again; one that was nowhere else is lost, and its segment damaged.
//
// Thread-safety: all methods may be called concurrently; the caller holds none of `writers`.
// `promotion_mutex_` is never held over I/O. Mending waits for the gate with the segment's lock
// held, never for that lock with a place of the gate. Errors: NOT_FOUND, INVALID_ARGUMENT (a layer
// or unit that the segment does not have), DATA_LOSS, RESOURCE_EXHAUSTED (of the gate).
#ifndef QUIRE_KVSERVER_STORE_UNIT_READER_H_
#define QUIRE_KVSERVER_STORE_UNIT_READER_H_

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/counters.h"
#include "common/base/health.h"
#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "kvserver/store/caller.h"
#include "kvserver/store/dram/dram_damage.h"
#include "kvserver/store/dram/dram_tier.h"
#include "kvserver/store/io_gate.h"
#include "kvserver/store/keyed_lock.h"
#include "kvserver/store/metadata/segment_catalog.h"
#include "kvserver/store/policy/prefill_cost.h"
#include "kvserver/store/policy/promotion_policy.h"
#include "kvserver/store/ssd/ssd_tier.h"
#include "kvserver/store/store_latencies.h"
#include "quire/status.h"

namespace quire::kvserver {

class UnitReader {
 public:
  /// What it reads from; all outlive the reader. `writers` excludes promotion from put and delete
  /// of the same segment.
  struct Parts {
    SegmentCatalog* catalog = nullptr;
    DramTier* dram = nullptr;
    DramDamage* damage = nullptr;
    SsdTier* ssd = nullptr;
    KeyedLock* writers = nullptr;
    AlignedBufferPool* buffers = nullptr;  ///< For decoded units.
    IoGate* gate = nullptr;                ///< Passed by every call that needs the SSD.
    StoreLatencies* latencies = nullptr;
    Health* health = nullptr;       ///< Told of Trouble::kDamagedOnTheWay.
    PrefillCost prefill_cost = {};  ///< What it costs to compute an extent again.
  };
  UnitReader(const Parts& parts, std::unique_ptr<PromotionPolicy> promotion)
      : parts_(parts), promotion_(std::move(promotion)) {}

  /// See PageStore::ReadUnits.
  Status Read(const Caller& caller, std::span<const UnitAddress> units,
              std::vector<UnitBytes>* out);

  /// See PageStore::ReadVerified.
  Status ReadVerified(const Caller& caller, std::span<const UnitAddress> units,
                      std::vector<VerifiedBytes>* out);
  /// See PageStore::Recheck.
  Status Recheck(const Caller& caller, std::span<const ReportedUnit> units);

  /// Verifies an extent in DRAM, whole, and puts what is on SSD in its place when it is damaged.
  /// Whether it was. DATA_LOSS when it was, and was nowhere else.
  StatusOr<bool> MendExtent(const Caller& caller, const ExtentId& id);

  /// Brings those extents of the segment to DRAM that are not there. RESOURCE_EXHAUSTED with a
  /// retry hint when one cannot come now.
  Status BringToDram(std::string_view tenant, const SegmentKey& key);

  /// promotions, promotions_refused, units_reported, units_reported_intact.
  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  /// A unit that DRAM does not have, and where it goes.
  struct Miss {
    UnitAddress address;
    SegmentRecordPtr record;
    UnitBytes* out = nullptr;
    bool promoted = false;
    ExtentId extent() const { return {address.segment, address.layer}; }
  };

  /// Reads what of `out` is empty, promoting on the way.
  Status ReadMisses(const Caller& caller, std::span<const UnitAddress> units,
                    std::span<UnitBytes> out);
  /// One for each unit whose place in `out` is empty, ordered by extent.
  StatusOr<std::vector<Miss>> FindMisses(std::string_view tenant,
                                         std::span<const UnitAddress> units,
                                         std::span<UnitBytes> out);
  /// Promotes the extents that are worth it. `misses` are in order of extents.
  void PromoteWorthy(std::string_view tenant, std::span<Miss> misses);
  /// Replaces encoded units by what they decode to; those that are damaged are mended first.
  Status Decode(const Caller& caller, std::span<const UnitAddress> addresses,
                std::span<UnitBytes> units);
  /// Tells operators of a unit that is intact here.
  void TellOfTheWay(const Caller& caller, const ReportedUnit& unit);
  /// A unit that did not match its checksum, as it is when its extent has been mended.
  StatusOr<UnitBytes> Mend(const Caller& caller, const UnitAddress& address);
  bool WorthPromoting(const ExtentId& id);
  /// Unless somebody writes or deletes the segment.
  bool Promote(std::string_view tenant, const SegmentRecord& known, const ExtentId& id);
  /// REQUIRES: the segment's lock is held.
  bool PromoteLocked(std::string_view tenant, const SegmentRecord& known, const ExtentId& id);
  /// All at once, each checked against its segment's record.
  Status ReadFromSsd(std::span<const Miss> misses);
  /// What was read when it is what was put; otherwise the segment is damaged from now on.
  StatusOr<UnitBytes> Checked(const SegmentRecord& record, SsdTier::UnitRead& read);

  const Parts parts_;
  Mutex promotion_mutex_;
  const std::unique_ptr<PromotionPolicy> promotion_ QUIRE_PT_GUARDED_BY(promotion_mutex_);
  Counter promotions_, refused_;
  Counter reported_, reported_intact_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_UNIT_READER_H_
