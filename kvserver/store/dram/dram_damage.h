// SPDX-License-Identifier: Apache-2.0
//
// DramDamage: drops extents whose bytes in DRAM do not match their checksums, and counts them. An
// extent without another copy is lost, and its segment counts as missing until it is put again.
// Thread-safety: all methods may be called concurrently. Calls for one segment need its writers'
// lock.
#ifndef QUIRE_KVSERVER_STORE_DRAM_DRAM_DAMAGE_H_
#define QUIRE_KVSERVER_STORE_DRAM_DRAM_DAMAGE_H_

#include <string>

#include "common/base/observe/counters.h"
#include "common/base/observe/health.h"
#include "common/base/observe/metrics.h"
#include "kvserver/store/dram/dram_tier.h"
#include "kvserver/store/metadata/segment_catalog.h"
#include "quire/status.h"

namespace quire::kvserver {

class DramDamage {
 public:
  /// All outlive the object.
  DramDamage(DramTier* dram, SegmentCatalog* catalog, Health* health)
      : dram_(dram), catalog_(catalog), health_(*health) {}

  /// Drops the damaged `resident`, which may have been evicted meanwhile. Pins stay.
  void Drop(const ExtentId& id, const ResidentPtr& resident) {
    damaged_.Add();
    health_.Note(Trouble::kMemoryDamaged,
                 "segment " + id.segment.Hex() + " layer " + std::to_string(id.layer) +
                     " did not match its checksums in DRAM and is read from SSD again; check the "
                     "memory of this machine when it happens again");
    (void)dram_->EraseExtent(id, resident);
  }
  /// Counts an extent restored from SSD.
  void Mended() { mended_.Add(); }
  /// Counts an extent without another copy as lost. Returns DATA_LOSS for the caller that met the
  /// damage. Later reads get NOT_FOUND.
  Status Lose(const ExtentId& id) {
    lost_.Add();
    catalog_->MarkDamaged(id.segment);
    return DataLoss("segment ", id.segment.Hex(), " layer ", id.layer,
                    " was kept in DRAM only, and its bytes there are damaged; put it again");
  }

  /// dram_extents_damaged, dram_extents_mended, dram_extents_lost.
  void VisitMetrics(MetricsVisitor& visit) const {
    visit.Counter("dram_extents_damaged",
                  "Extents that left DRAM because their bytes there did not match their checksums.",
                  damaged_.Get());
    visit.Counter("dram_extents_mended", "Damaged extents that came back to DRAM from SSD at once.",
                  mended_.Get());
    visit.Counter("dram_extents_lost",
                  "Damaged extents that were in DRAM only; their segments count as missing.",
                  lost_.Get());
  }

 private:
  DramTier* const dram_;
  SegmentCatalog* const catalog_;
  Health& health_;
  Counter damaged_, mended_, lost_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_DRAM_DRAM_DAMAGE_H_
