// SPDX-License-Identifier: Apache-2.0
//
// TailScrub: verifies the pages that open contexts keep in memory until they become a segment.
// There is no other copy, so damage is permanent. A damaged page is never read, stored or sealed,
// and its client must send it again. It is counted once. Thread-safety: none. Ownership: the table
// outlives the scrub.
#ifndef QUIRE_KVSERVER_SESSION_CONTEXT_TAIL_SCRUB_H_
#define QUIRE_KVSERVER_SESSION_CONTEXT_TAIL_SCRUB_H_

#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "kvserver/session/context/context_table.h"
#include "kvserver/store/repair/scrub.h"

namespace quire::kvserver {

class TailScrub final : public ScrubWork {
 public:
  explicit TailScrub(const ContextTable* contexts) : contexts_(*contexts) {}

  std::string_view kind() const override { return "open_pages"; }
  void Begin() override;
  StatusOr<std::optional<ScrubStep>> Next() override;

 private:
  using WeakPage = std::weak_ptr<const TailPage>;

  /// A page whose turn comes.
  struct Pending {
    WeakPage page;
    std::weak_ptr<const OpenContext> context;
  };

  const ContextTable& contexts_;
  std::vector<Pending> pages_;  ///< Pages still to verify.
  /// Damaged pages that still exist.
  std::set<WeakPage, std::owner_less<WeakPage>> damaged_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_CONTEXT_TAIL_SCRUB_H_
