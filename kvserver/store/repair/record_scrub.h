// SPDX-License-Identifier: Apache-2.0
//
// RecordScrub: reads every row of the database except digests and verifies it. A segment with a
// damaged record counts as missing from then on, and its next put rewrites it. Damage of other rows
// is reported, and their readers get DATA_LOSS. Thread-safety: none. Ownership: all arguments
// outlive it.
#ifndef QUIRE_KVSERVER_STORE_REPAIR_RECORD_SCRUB_H_
#define QUIRE_KVSERVER_STORE_REPAIR_RECORD_SCRUB_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/observe/health.h"
#include "kvserver/store/keyed_lock.h"
#include "kvserver/store/metadata/row_cursor.h"
#include "kvserver/store/metadata/segment_catalog.h"
#include "kvserver/store/repair/scrub.h"

namespace quire::kvserver {

class RecordScrub final : public ScrubWork {
 public:
  /// Verifies a row of Table::kMetadata; DATA_LOSS when it is damaged.
  using MetadataCheck = Status (*)(std::string_view key, std::string_view value);
  struct Parts {
    Database* database = nullptr;
    SegmentCatalog* catalog = nullptr;
    KeyedLock* writers = nullptr;
    /// Null: only the database's own checksums are checked.
    MetadataCheck check_metadata = nullptr;
    /// Has Trouble::kRecordsDamaged raised until a round finds none; may be null.
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

  /// Verifies and counts the row. Returns false when it is damaged.
  bool Check(Table table, std::string_view key, std::string_view value, ScrubStep* step) const;
  /// Reports damage, and marks its segment. A row written meanwhile is left to the next round.
  void FoundDamage(const TableRows& from, const std::string& key, ScrubStep* step);
  /// Raises damage that belongs to no segment.
  void Raise(const std::string& found);
  Status Verify(Table table, std::string_view key, std::string_view value) const;

  const Parts parts_;
  std::vector<TableRows> tables_;
  size_t table_ = 0;  ///< Index of the table whose rows come next.
  /// This round found damaged records that belong to no segment.
  bool has_damaged_records_ = false;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_REPAIR_RECORD_SCRUB_H_
