// SPDX-License-Identifier: Apache-2.0
//
// DigestScrub: verifies every digest in the database. Damaged ones are recomputed from verified
// units. Damaged representatives are dropped until a client gives them again. Every read verifies
// cached digests, so they are left out here. Thread-safety: none. Ownership: all arguments outlive
// it.
#ifndef QUIRE_KVSERVER_STORE_REPAIR_DIGEST_SCRUB_H_
#define QUIRE_KVSERVER_STORE_REPAIR_DIGEST_SCRUB_H_

#include <optional>
#include <string_view>

#include "kvserver/store/metadata/row_cursor.h"
#include "kvserver/store/read/digest_deriver.h"
#include "kvserver/store/repair/scrub.h"

namespace quire::kvserver {

class DigestScrub final : public ScrubWork {
 public:
  struct Parts {
    Database* database = nullptr;
    DigestDeriver* deriver = nullptr;
  };
  explicit DigestScrub(const Parts& parts)
      : parts_(parts), rows_(parts.database, Table::kDigests) {}

  std::string_view kind() const override { return "digests"; }
  void Begin() override { rows_.Begin(); }
  StatusOr<std::optional<ScrubStep>> Next() override;

 private:
  /// NOT_FOUND when the segment is gone.
  Status Mend(const DigestId& id);

  const Parts parts_;
  RowCursor rows_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_REPAIR_DIGEST_SCRUB_H_
