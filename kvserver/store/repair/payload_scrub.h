// SPDX-License-Identifier: Apache-2.0
//
// PayloadScrub: reads every unit on SSD again and verifies it. A damaged segment counts as missing
// from then on, and its next put repairs it.
//
// It bypasses DRAM and reads few units at a time under the lock of their segment. A put or a delete
// waits for at most one such read. A segment being changed is left to the next round.
// Thread-safety: none. Ownership: all arguments outlive it.
#ifndef QUIRE_KVSERVER_STORE_REPAIR_PAYLOAD_SCRUB_H_
#define QUIRE_KVSERVER_STORE_REPAIR_PAYLOAD_SCRUB_H_

#include <cstdint>
#include <optional>
#include <string>

#include "kvserver/store/keyed_lock.h"
#include "kvserver/store/metadata/row_cursor.h"
#include "kvserver/store/metadata/segment_catalog.h"
#include "kvserver/store/repair/scrub.h"
#include "kvserver/store/ssd/ssd_tier.h"

namespace quire::kvserver {

class PayloadScrub final : public ScrubWork {
 public:
  struct Parts {
    Database* database = nullptr;
    SegmentCatalog* catalog = nullptr;
    SsdTier* ssd = nullptr;
    KeyedLock* writers = nullptr;
  };
  explicit PayloadScrub(const Parts& parts)
      : parts_(parts), rows_(parts.database, Table::kSegments) {}

  std::string_view kind() const override { return "payload"; }
  void Begin() override;
  StatusOr<std::optional<ScrubStep>> Next() override;

 private:
  /// A segment being read, and the position in it.
  struct Segment {
    SegmentKey key;
    std::string encoded;  ///< Its record, to detect changes.
    SegmentRecord record;
    uint32_t layer = 0;
    uint32_t unit = 0;
  };

  /// Starts the segment of a row, if it has payload on SSD.
  void Take(const std::string& raw_key, std::string value);
  /// Reads a few units of the segment. Ends it after its last.
  void ReadUnits(ScrubStep* step);
  /// True when the segment's record is unchanged. REQUIRES: its lock is held.
  bool IsSame() const;
  /// REQUIRES: the segment's lock is held.
  void FoundDamage(const SegmentKey& key, const Status& what, ScrubStep* step);

  const Parts parts_;
  RowCursor rows_;
  std::optional<Segment> segment_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_REPAIR_PAYLOAD_SCRUB_H_
