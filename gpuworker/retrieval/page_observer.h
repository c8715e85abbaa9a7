// SPDX-License-Identifier: Apache-2.0
//
// PageObserver: a policy's view of the pages of its sequence. A policy that selects by digests
// or keys has one (RetrievalPolicy::page_observer). Calls for each layer:
//
//   the sequence opens   WantedDigests ──► OnPrefillLayer ──► OnPageComplete for each stored page,
//                                                             where WantsUnits
//   a page fills up      OnPageComplete
//
// Thread-safety: none; it belongs to the thread of its policy.
#ifndef QUIRE_GPUWORKER_RETRIEVAL_PAGE_OBSERVER_H_
#define QUIRE_GPUWORKER_RETRIEVAL_PAGE_OBSERVER_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "gpuworker/retrieval/digests/stored_digests.h"
#include "kernels/api/digest.h"
#include "quire/status.h"

namespace quire::worker {

class JointWork;

class PageObserver {
 public:
  virtual ~PageObserver() = default;

  /// Kind of the digests of stored pages that OnPrefillLayer needs; nullopt for none.
  virtual std::optional<kernels::DigestKind> WantedDigests(uint32_t /*layer*/) const {
    return std::nullopt;
  }
  /// True when OnPageComplete needs every stored page, in order, after OnPrefillLayer. The whole
  /// layer is read once for it when the sequence opens.
  virtual bool WantsUnits(uint32_t /*layer*/) const { return false; }
  /// The sequence starts with pages [0, num_pages) complete. `digests` are theirs, of the wanted
  /// kind; null when none is wanted or there are no pages.
  [[nodiscard]] virtual Status OnPrefillLayer(uint32_t /*layer*/, uint32_t /*num_pages*/,
                                              std::shared_ptr<const StoredDigests> /*digests*/) {
    return OkStatus();
  }
  /// Page `page` is complete; pages come in order. `units` is [n_kv] units on the device, valid
  /// during the call.
  [[nodiscard]] virtual Status OnPageComplete(uint32_t layer, uint32_t page, const void* units) = 0;
  /// In place of OnPageComplete, for units that are there at the next Launch of `work`. False when
  /// the observer needs them itself: OnPageComplete is then called after it.
  virtual StatusOr<bool> AddPage(uint32_t /*layer*/, uint32_t /*page*/, const void* /*units*/,
                                 JointWork* /*work*/) {
    return false;
  }
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RETRIEVAL_PAGE_OBSERVER_H_
