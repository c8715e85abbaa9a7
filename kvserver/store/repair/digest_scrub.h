// SPDX-License-Identifier: Apache-2.0
//
// DigestScrub: verifies every digest on SSD: rows of the database, then the extents of digests.
// Damaged ones are recomputed from verified units, and kept in rows. Damaged representatives are
// dropped until a client gives them again. Every read verifies cached digests, so they are left out
// here. Thread-safety: none. Ownership: all arguments outlive it.
#ifndef QUIRE_KVSERVER_STORE_REPAIR_DIGEST_SCRUB_H_
#define QUIRE_KVSERVER_STORE_REPAIR_DIGEST_SCRUB_H_

#include <optional>
#include <string_view>

#include "kvserver/store/metadata/row_cursor.h"
#include "kvserver/store/read/digest_deriver.h"
#include "kvserver/store/repair/scrub.h"
#include "kvserver/store/ssd/ssd_tier.h"

namespace quire::kvserver {

class DigestScrub final : public ScrubWork {
 public:
  struct Parts {
    Database* database = nullptr;
    SsdTier* ssd = nullptr;
    DigestDeriver* deriver = nullptr;
  };
  explicit DigestScrub(const Parts& parts)
      : parts_(parts),
        rows_(parts.database, Table::kDigests),
        segments_(parts.database, Table::kSegments) {}

  std::string_view kind() const override { return "digests"; }
  void Begin() override;
  StatusOr<std::optional<ScrubStep>> Next() override;

 private:
  /// A segment whose digests are being read, and the next layer.
  struct Segment {
    SegmentKey key;
    uint32_t layers = 0;
    uint64_t bytes_per_layer = 0;
    uint32_t layer = 0;
  };

  /// Verifies the next row; nullopt at the end.
  StatusOr<std::optional<ScrubStep>> NextRow();
  /// Takes the next segment, or verifies a few layers of the taken one; nullopt at the end.
  StatusOr<std::optional<ScrubStep>> NextOfExtents();
  void ReadLayers(ScrubStep* step);
  /// True when a row with sound digests comes before the extent.
  bool HasRow(const DigestId& id) const;
  /// Makes damaged digests anew, and reports it.
  void FoundDamage(const DigestId& id, ScrubStep* step);
  /// NOT_FOUND when the segment is gone.
  Status Mend(const DigestId& id);

  const Parts parts_;
  RowCursor rows_;
  RowCursor segments_;
  std::optional<Segment> segment_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_REPAIR_DIGEST_SCRUB_H_
