// SPDX-License-Identifier: Apache-2.0
//
// DramScrub: verifies every extent in DRAM in place. Damaged ones are repaired from SSD. An extent
// without another copy is lost, and its segment counts as missing until it is put again. An extent
// is held in place while it is verified. The eviction policy does not see these reads.
// Thread-safety: none. Ownership: all arguments outlive it.
#ifndef QUIRE_KVSERVER_STORE_REPAIR_DRAM_SCRUB_H_
#define QUIRE_KVSERVER_STORE_REPAIR_DRAM_SCRUB_H_

#include <optional>
#include <vector>

#include "kvserver/store/dram/dram_tier.h"
#include "kvserver/store/metadata/segment_catalog.h"
#include "kvserver/store/read/unit_reader.h"
#include "kvserver/store/repair/scrub.h"

namespace quire::kvserver {

class DramScrub final : public ScrubWork {
 public:
  struct Parts {
    DramTier* dram = nullptr;
    UnitReader* reader = nullptr;
    SegmentCatalog* catalog = nullptr;
  };
  explicit DramScrub(const Parts& parts) : parts_(parts) {}

  std::string_view kind() const override { return "dram"; }
  void Begin() override;
  StatusOr<std::optional<ScrubStep>> Next() override;

 private:
  void Mend(std::string_view tenant, const ExtentId& id, ScrubStep* step);

  const Parts parts_;
  DramIndex::Cursor cursor_;
  std::vector<ExtentId> extents_;  ///< Extents of the walk that are not yet verified.
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_REPAIR_DRAM_SCRUB_H_
