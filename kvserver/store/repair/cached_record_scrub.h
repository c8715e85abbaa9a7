// SPDX-License-Identifier: Apache-2.0
//
// CachedRecordScrub: verifies the records of segments, chains and extents that are cached in
// memory. Damaged ones are dropped, and the next reader takes them from the database, which has
// checksums of its own. (Cached digests are verified whenever they are found.) Thread-safety: none.
// Ownership: everything given outlives it.
#ifndef QUIRE_KVSERVER_STORE_REPAIR_CACHED_RECORD_SCRUB_H_
#define QUIRE_KVSERVER_STORE_REPAIR_CACHED_RECORD_SCRUB_H_

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "kvserver/store/metadata/segment_catalog.h"
#include "kvserver/store/repair/scrub.h"
#include "kvserver/store/ssd/ssd_tier.h"

namespace quire::kvserver {

class CachedRecordScrub final : public ScrubWork {
 public:
  struct Parts {
    SegmentCatalog* catalog = nullptr;
    SsdTier* ssd = nullptr;
  };
  explicit CachedRecordScrub(const Parts& parts) : parts_(parts) {}

  std::string_view kind() const override { return "cached_records"; }
  void Begin() override;
  StatusOr<std::optional<ScrubStep>> Next() override;

 private:
  const Parts parts_;
  std::vector<std::unique_ptr<CacheWalk>> walks_;  ///< Caches that were not gone through yet.
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_REPAIR_CACHED_RECORD_SCRUB_H_
