// SPDX-License-Identifier: Apache-2.0
//
// HeldDigestScrub: verifies the digests held in memory for open sessions. Damaged ones are not used
// from then on: holders read through the store, which verifies them, and later holders load them
// again. Thread-safety: none.
#ifndef QUIRE_KVSERVER_SELECT_HELD_DIGEST_SCRUB_H_
#define QUIRE_KVSERVER_SELECT_HELD_DIGEST_SCRUB_H_

#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "kvserver/select/digest_table.h"
#include "kvserver/store/repair/scrub.h"

namespace quire::kvserver {

class HeldDigestScrub final : public ScrubWork {
 public:
  explicit HeldDigestScrub(std::shared_ptr<DigestTable> table) : table_(std::move(table)) {}

  std::string_view kind() const override { return "held_digests"; }
  void Begin() override { blocks_ = table_->Blocks(); }
  StatusOr<std::optional<ScrubStep>> Next() override;

 private:
  const std::shared_ptr<DigestTable> table_;
  std::vector<std::weak_ptr<ResidentBlock>> blocks_;  ///< Blocks not yet verified.
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SELECT_HELD_DIGEST_SCRUB_H_
