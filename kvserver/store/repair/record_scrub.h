// SPDX-License-Identifier: Apache-2.0
//
// RecordScrub: reads every row of the database that is no digest and verifies it. A segment with a
// damaged record counts as missing from then on, and the next put of it writes it anew; of all
// other rows damage is told, and whoever needs one gets DATA_LOSS. Thread-safety: none. Ownership:
// everything given outlives it.
#ifndef QUIRE_KVSERVER_STORE_REPAIR_RECORD_SCRUB_H_
#define QUIRE_KVSERVER_STORE_REPAIR_RECORD_SCRUB_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/health.h"
#include "kvserver/store/keyed_lock.h"
#include "kvserver/store/metadata/row_cursor.h"
#include "kvserver/store/metadata/segment_catalog.h"
#include "kvserver/store/repair/scrub.h"

namespace quire::kvserver {

class RecordScrub final : public ScrubWork {
 public:
  /// Whether the row of Table::kMetadata is what it was when it was written: DATA_LOSS.
  using MetadataCheck = Status (*)(std::string_view key, std::string_view value);
  struct Parts {
    Database* database = nullptr;
    SegmentCatalog* catalog = nullptr;
    KeyedLock* writers = nullptr;
    MetadataCheck check_metadata = nullptr;  ///< Null: the database's own checksums are all.
    /// Told of Trouble::kRecordsDamaged, until a round finds none; may be null.
    Health* health = nullptr;
  };
  explicit RecordScrub(const Parts& parts);

  std::string_view kind() const override { return "records"; }
  void Begin() override;
  StatusOr<std::optional<ScrubStep>> Next() override;

 private:
  struct TableRows {
    Table table;
    std::string_view name;
    RowCursor rows;
  };

  /// Whether the row is what was written; counts it.
  bool Check(Table table, std::string_view key, std::string_view value, ScrubStep* step) const;
  /// Says what is damaged, and marks the segment that it is of. A row that somebody has written or
  /// is writing meanwhile is left to the next round.
  void FoundDamage(const TableRows& from, const std::string& key, ScrubStep* step);
  /// Posts damage that is of no segment.
  void Raise(const std::string& found);
  Status Verify(Table table, std::string_view key, std::string_view value) const;

  const Parts parts_;
  std::vector<TableRows> tables_;
  size_t table_ = 0;                  ///< Whose rows come next.
  bool has_damaged_records_ = false;  ///< This round found some that are of no segment.
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_REPAIR_RECORD_SCRUB_H_
