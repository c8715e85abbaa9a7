// SPDX-License-Identifier: Apache-2.0
//
// SelectedPages: the pages selected for one head, with marks of those found in its slots. Pages
// close together, as in one document, have one bit for each page number, so a look-up needs no
// search. Otherwise there is one bit for each selected page. Thread-safety: none. Ownership: the
// pages are the caller's and outlive their use.
#ifndef QUIRE_COMMON_PAGE_SELECTED_PAGES_H_
#define QUIRE_COMMON_PAGE_SELECTED_PAGES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace quire {

class SelectedPages {
 public:
  /// Starts over without marks. REQUIRES: `pages` is ascending and distinct.
  void Reset(std::span<const uint32_t> pages) {
    pages_ = pages;
    first_ = pages.empty() ? 0 : pages.front();
    const size_t reach = pages.empty() ? 0 : size_t{pages.back()} - first_ + 1;
    by_page_ = reach <= kBitsPerPage * pages.size();
    num_bits_ = by_page_ ? reach : pages.size();
    missing_.assign((num_bits_ + 63) / 64, 0);
    for (size_t i = 0; i < pages.size(); ++i) {
      const size_t bit = by_page_ ? pages[i] - first_ : i;
      missing_[bit / 64] |= uint64_t{1} << (bit % 64);
    }
  }

  /// Marks `page`, any number. Returns true when it is selected and was not marked before.
  bool Find(uint32_t page) {
    const size_t bit = by_page_ ? page - first_ : IndexOf(page);
    if (bit >= num_bits_) return false;
    uint64_t& word = missing_[bit / 64];
    const uint64_t mask = uint64_t{1} << (bit % 64);
    if ((word & mask) == 0) return false;
    word ^= mask;
    return true;
  }
  /// True when the selected page at `index` was not found.
  bool IsMissing(size_t index) const {
    const size_t bit = by_page_ ? pages_[index] - first_ : index;
    return (missing_[bit / 64] >> (bit % 64) & 1) != 0;
  }

 private:
  /// Most bits per page: clearing more costs more than a search.
  static constexpr size_t kBitsPerPage = 512;

  /// Index of `page`; the number of pages when it is not selected.
  size_t IndexOf(uint32_t page) const {
    // Binary search without data-dependent branches.
    const uint32_t* base = pages_.data();
    for (size_t count = pages_.size(); count > 1;) {
      const size_t half = count / 2;
      base += base[half - 1] < page ? half : 0;
      count -= half;
    }
    const bool found = !pages_.empty() && *base == page;
    return found ? static_cast<size_t>(base - pages_.data()) : pages_.size();
  }

  std::span<const uint32_t> pages_;
  uint32_t first_ = 0;
  bool by_page_ = false;
  size_t num_bits_ = 0;
  std::vector<uint64_t> missing_;
};

}  // namespace quire

#endif  // QUIRE_COMMON_PAGE_SELECTED_PAGES_H_
