// SPDX-License-Identifier: Apache-2.0
//
// DocumentShares: what the sequences of a batch that are over one document need not each read from
// the store. Digests of stored pages are shared: the first to open reads them, the others point to
// the same memory. Pages with fixed slots are copied from a sequence that has them, since no two
// sequences share slots. Fixed are sinks, window, and all pages of a layer that holds everything.
// Shares belong to stored pages with certain bytes. Sequences that find other bytes in the store
// share only with each other. Pages that a sequence appends are never shared.
//
// Bounded: nothing is kept for later. Digests live as long as a sequence holds them, and pages can
// be copied as long as the sequence that offers them runs.
//
// DocumentSeat: one sequence's part in it, or in nothing.
//
// Thread-safety: none; shares and their seats belong to one thread. Ownership: shares outlive
// their seats, and what is shared is on one device.
#ifndef QUIRE_GPUWORKER_ENGINE_DOCUMENT_SHARES_H_
#define QUIRE_GPUWORKER_ENGINE_DOCUMENT_SHARES_H_

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "gpuworker/cache/budget_cache.h"
#include "gpuworker/cache/document_pages.h"
#include "gpuworker/retrieval/digests/stored_digests.h"
#include "kernels/api/digest.h"
#include "quire/status.h"

namespace quire::worker {

class DocumentSeat;

class DocumentShares {
 public:
  DocumentShares() = default;
  DocumentShares(const DocumentShares&) = delete;
  DocumentShares& operator=(const DocumentShares&) = delete;

  /// Bytes that sequences had from others instead of from the store: of digests, and of pages.
  uint64_t digest_bytes_shared() const { return digest_bytes_shared_; }
  uint64_t page_bytes_shared() const { return page_bytes_shared_; }
  /// Digests that are held, each counted once.
  uint64_t digest_bytes_held() const;

 private:
  friend class DocumentSeat;
  struct DigestName {
    DocumentPages document = {};
    uint32_t layer = 0;
    kernels::DigestKind kind = {};
    friend auto operator<=>(const DigestName&, const DigestName&) = default;
  };
  using Digests = std::weak_ptr<const StoredDigests>;

  std::map<DigestName, Digests> digests_;
  std::vector<const DocumentSeat*> offers_;  ///< Seats with pages to copy.
  uint64_t digest_bytes_shared_ = 0;
  uint64_t page_bytes_shared_ = 0;
};

class DocumentSeat {
 public:
  /// `shares` may be null: nothing is found, and nothing offered.
  DocumentSeat(DocumentShares* shares, const DocumentPages& document)
      : shares_(shares), document_(document) {}
  ~DocumentSeat();
  DocumentSeat(const DocumentSeat&) = delete;
  DocumentSeat& operator=(const DocumentSeat&) = delete;

  /// The digests of all whole pages of the document, if a sequence holds them.
  std::shared_ptr<const StoredDigests> FindDigests(uint32_t layer, kernels::DigestKind kind) const;
  void PutDigests(uint32_t layer, kernels::DigestKind kind,
                  const std::shared_ptr<const StoredDigests>& digests) const;

  /// Copies what others offer of `pages`, which have fixed slots in `to`, there. Returns the pages
  /// that nobody has.
  StatusOr<std::vector<uint32_t>> CopyPages(uint32_t layer, std::vector<uint32_t> pages,
                                            BudgetCache* to) const;
  /// Until the seat is released, others may copy the document's pages from `cache`, while they have
  /// slots there. `cache` holds the bytes of the store. `cache` outlives the seat.
  void Offer(const BudgetCache* cache);

 private:
  DocumentShares* const shares_;
  const DocumentPages document_;
  const BudgetCache* offered_ = nullptr;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_DOCUMENT_SHARES_H_
