// SPDX-License-Identifier: Apache-2.0
#include "kvserver/session/context/page_use_table.h"

namespace quire::kvserver {

std::vector<uint32_t> PageUse::Counts() const {
  std::vector<uint32_t> counts;
  counts.reserve(counts_.size());
  for (const std::atomic<uint32_t>& count : counts_) {
    counts.push_back(count.load(std::memory_order_relaxed));
  }
  return counts;
}

std::shared_ptr<PageUse> PageUseTable::Of(std::string_view tenant, const SegmentKey& tip,
                                          uint32_t num_pages) {
  Name name(tenant, tip);
  MutexLock lock(mutex_);
  if (const auto known = uses_.find(name); known != uses_.end()) {
    opened_.splice(opened_.end(), opened_, known->second.opened);
    return known->second.use;
  }
  if (!MakeRoom(num_pages)) return nullptr;
  pages_ += num_pages;
  auto use = std::make_shared<PageUse>(num_pages);
  opened_.push_back(name);
  uses_.emplace(std::move(name), Entry{use, std::prev(opened_.end())});
  return use;
}

std::vector<uint32_t> PageUseTable::Counts(std::string_view tenant, const SegmentKey& tip) const {
  std::shared_ptr<const PageUse> use;
  {
    MutexLock lock(mutex_);
    const auto known = uses_.find(Name(tenant, tip));
    if (known == uses_.end()) return {};
    use = known->second.use;
  }
  return use->Counts();
}

bool PageUseTable::MakeRoom(uint64_t num_pages) {
  for (auto oldest = opened_.begin(); pages_ + num_pages > most_pages_;) {
    if (oldest == opened_.end()) return false;
    const auto entry = uses_.find(*oldest);
    // A new user needs the lock.
    if (entry->second.use.use_count() > 1) {
      ++oldest;
      continue;
    }
    pages_ -= entry->second.use->num_pages();
    uses_.erase(entry);
    oldest = opened_.erase(oldest);
  }
  return true;
}

}  // namespace quire::kvserver
