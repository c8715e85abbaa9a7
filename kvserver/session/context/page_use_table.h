// SPDX-License-Identifier: Apache-2.0
//
// PageUseTable: how often recalls place units of each page of a chain, since the server started. A
// question continues the chain of its document, so documents of the same chain share counts.
// Sessions keep the counts of their contexts and add to them without a lock. Memory is bounded: the
// counts of chains that were opened longest ago go first. Thread-safety: all methods may be called
// concurrently.
#ifndef QUIRE_KVSERVER_SESSION_CONTEXT_PAGE_USE_TABLE_H_
#define QUIRE_KVSERVER_SESSION_CONTEXT_PAGE_USE_TABLE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/threads/mutex.h"
#include "quire/key.h"

namespace quire::kvserver {

/// Counts of one chain's pages. Calls that count one page at the same moment may count once: counts
/// say which pages matter, and cost no locked instruction.
class PageUse {
 public:
  explicit PageUse(uint32_t num_pages) : counts_(num_pages) {}

  /// Counts a use of each of `pages`; ignores pages after the chain's.
  void Add(std::span<const uint32_t> pages) {
    std::atomic<uint32_t>* const counts = counts_.data();
    const size_t num_pages = counts_.size();
    for (const uint32_t page : pages) {
      if (page >= num_pages) continue;
      const uint32_t before = counts[page].load(std::memory_order_relaxed);
      if (before == std::numeric_limits<uint32_t>::max()) continue;
      counts[page].store(before + 1, std::memory_order_relaxed);
    }
  }
  void Add(uint32_t page) { Add({&page, 1}); }
  std::vector<uint32_t> Counts() const;
  uint64_t num_pages() const { return counts_.size(); }

 private:
  std::vector<std::atomic<uint32_t>> counts_;
};

class PageUseTable {
 public:
  static constexpr uint64_t kMostPages = uint64_t{4} << 20;  ///< 16 MiB of counts.

  explicit PageUseTable(uint64_t most_pages = kMostPages) : most_pages_(most_pages) {}

  /// The counts of the chain that ends with `tip`, which has `num_pages`. Null where those in use
  /// leave no room: its uses do not count then.
  std::shared_ptr<PageUse> Of(std::string_view tenant, const SegmentKey& tip, uint32_t num_pages)
      QUIRE_EXCLUDES(mutex_);
  /// Uses by page; empty when no session opened the chain, or its counts are gone.
  std::vector<uint32_t> Counts(std::string_view tenant, const SegmentKey& tip) const
      QUIRE_EXCLUDES(mutex_);

 private:
  using Name = std::pair<std::string, SegmentKey>;
  struct Entry {
    std::shared_ptr<PageUse> use;
    std::list<Name>::iterator opened;  ///< In `opened_`.
  };
  /// Forgets chains that nobody uses until `num_pages` more fit; false when they do not.
  bool MakeRoom(uint64_t num_pages) QUIRE_REQUIRES(mutex_);

  const uint64_t most_pages_;
  mutable Mutex mutex_;
  uint64_t pages_ QUIRE_GUARDED_BY(mutex_) = 0;
  std::map<Name, Entry> uses_ QUIRE_GUARDED_BY(mutex_);
  std::list<Name> opened_ QUIRE_GUARDED_BY(mutex_);  ///< The one opened last at the end.
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_CONTEXT_PAGE_USE_TABLE_H_
