// SPDX-License-Identifier: Apache-2.0
//
// PageLists: the pages that each KV head of a layer wants, in one flat array with the begin of each
// head. Clear and Reset keep the memory, so lists rebuilt at every step allocate nothing. Users
// decide on the order of pages (usually ascending and distinct). Header-only, plain C++.
// Thread-safety: a value type.
#ifndef QUIRE_COMMON_PAGE_PAGE_LISTS_H_
#define QUIRE_COMMON_PAGE_PAGE_LISTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

namespace quire {

class PageLists {
 public:
  /// Has no heads.
  PageLists() = default;
  /// One list per head, as given.
  PageLists(std::initializer_list<std::initializer_list<uint32_t>> heads) {
    for (const auto& pages : heads) AppendHead({pages.begin(), pages.size()});
  }

  uint32_t num_heads() const { return static_cast<uint32_t>(begins_.size() - 1); }
  /// Number of pages of all heads.
  size_t num_pages() const { return pages_.size(); }
  std::span<const uint32_t> Head(uint32_t head) const {
    return {pages_.data() + begins_[head], begins_[head + 1] - begins_[head]};
  }
  /// Every page, head after head.
  std::span<const uint32_t> pages() const { return pages_; }

  /// Removes all heads.
  void Clear() {
    pages_.clear();
    begins_.resize(1);
  }
  /// Replaces the lists by `heads` empty ones.
  void Reset(uint32_t heads) {
    pages_.clear();
    begins_.assign(size_t{heads} + 1, 0);
  }
  /// Adds a head with `pages`, which must not point into these lists.
  void AppendHead(std::span<const uint32_t> pages = {}) {
    pages_.insert(pages_.end(), pages.begin(), pages.end());
    begins_.push_back(static_cast<uint32_t>(pages_.size()));
  }
  /// Adds a page to the last head. REQUIRES: there is a head.
  void Append(uint32_t page) {
    pages_.push_back(page);
    begins_.back() = static_cast<uint32_t>(pages_.size());
  }
  /// Adds a head of `count` pages for the caller to write. Valid until the next change.
  std::span<uint32_t> AddHead(size_t count) {
    const size_t first = pages_.size();
    pages_.resize(first + count);
    begins_.push_back(static_cast<uint32_t>(pages_.size()));
    return std::span(pages_).subspan(first);
  }
  /// Adds a head with the pages of the last one. REQUIRES: there is a head.
  void RepeatHead() {
    const size_t first = begins_[begins_.size() - 2];
    const size_t count = pages_.size() - first;
    const std::span<uint32_t> copy = AddHead(count);
    std::copy_n(pages_.data() + first, count, copy.data());
  }

  friend bool operator==(const PageLists&, const PageLists&) = default;

 private:
  std::vector<uint32_t> pages_;
  std::vector<uint32_t> begins_ = {0};  ///< [heads + 1]; head i is [begins_[i], begins_[i + 1]).
};

}  // namespace quire

#endif  // QUIRE_COMMON_PAGE_PAGE_LISTS_H_
