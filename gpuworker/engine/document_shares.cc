// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/document_shares.h"

#include <algorithm>
#include <utility>

#include "quire/layout.h"

namespace quire::worker {

uint64_t DocumentShares::digest_bytes_held() const {
  uint64_t bytes = 0;
  for (const auto& [name, digests] : digests_) {
    if (const auto held = digests.lock()) bytes += held->size_bytes();
  }
  return bytes;
}

DocumentSeat::~DocumentSeat() {
  if (offered_ != nullptr) std::erase(shares_->offers_, this);
}

std::shared_ptr<const StoredDigests> DocumentSeat::FindDigests(uint32_t layer,
                                                               kernels::DigestKind kind) const {
  if (shares_ == nullptr) return nullptr;
  const auto it = shares_->digests_.find({document_, layer, kind});
  if (it == shares_->digests_.end()) return nullptr;
  auto digests = it->second.lock();
  if (digests == nullptr || digests->num_pages() != document_.num_pages) return nullptr;
  shares_->digest_bytes_shared_ += digests->size_bytes();
  return digests;
}

void DocumentSeat::PutDigests(uint32_t layer, kernels::DigestKind kind,
                              const std::shared_ptr<const StoredDigests>& digests) const {
  if (shares_ == nullptr) return;
  std::erase_if(shares_->digests_, [](const auto& entry) { return entry.second.expired(); });
  shares_->digests_[{document_, layer, kind}] = digests;
}

StatusOr<std::vector<uint32_t>> DocumentSeat::CopyPages(uint32_t layer, std::vector<uint32_t> pages,
                                                        BudgetCache* to) const {
  if (shares_ == nullptr) return pages;
  for (const DocumentSeat* const other : shares_->offers_) {
    if (pages.empty()) break;
    if (other->document_ != document_ || other->offered_ == to) continue;
    // A page behind them is short, and its slot has tokens of its sequence, too.
    const auto end = std::ranges::lower_bound(pages, document_.num_pages);
    const std::vector<uint32_t> wanted(pages.begin(), end);
    QUIRE_ASSIGN_OR_RETURN(std::vector<uint32_t> left,
                           to->CopyFixed(layer, wanted, *other->offered_));
    shares_->page_bytes_shared_ += (wanted.size() - left.size()) * ExtentBytes(to->spec(), 1);
    left.insert(left.end(), end, pages.end());
    pages = std::move(left);
  }
  return pages;
}

void DocumentSeat::Offer(const BudgetCache* cache) {
  if (shares_ == nullptr) return;
  offered_ = cache;
  shares_->offers_.push_back(this);
}

}  // namespace quire::worker
