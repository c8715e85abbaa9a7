// SPDX-License-Identifier: Apache-2.0
//
// CacheLayout: how one layer's slots are divided. A plain value, in pages, the same for every KV
// head of the layer.
//
//   slots of a budget layer: [0, sink) sinks | [sink, sink + window) window ring | selectable
//   slots of a layer that holds everything: slot j is page j, and the pool grows
#ifndef QUIRE_GPUWORKER_CACHE_CACHE_LAYOUT_H_
#define QUIRE_GPUWORKER_CACHE_CACHE_LAYOUT_H_

#include <algorithm>
#include <bit>
#include <cstdint>

namespace quire::worker {

/// Pages [first, end).
struct PageRange {
  uint32_t first = 0;
  uint32_t end = 0;
  uint32_t size() const { return end - first; }
  bool contains(uint32_t page) const { return first <= page && page < end; }
  friend bool operator==(const PageRange&, const PageRange&) = default;
};

struct CacheLayout {
  bool everything = false;        ///< Every page is resident; the fields below are unused.
  uint32_t sink_pages = 0;        ///< The first pages, always resident.
  uint32_t window_pages = 0;      ///< The last pages, the open one counted; at least 2.
  uint32_t selectable_pages = 0;  ///< Slots that recalls fill.
  /// k_sel: how many of them a selection takes at most, the others keeping pages that were selected
  /// before. 0: all of them.
  uint32_t selected_pages = 0;

  uint32_t num_slots() const { return sink_pages + window_pages + selectable_pages; }
  /// True if a token's query decides what it attends to; the host recalls that first. Otherwise the
  /// number of tokens decides.
  bool selects() const { return !everything && selectable_pages > 0; }
  uint32_t most_selected() const { return selected_pages == 0 ? selectable_pages : selected_pages; }
  friend bool operator==(const CacheLayout&, const CacheLayout&) = default;
};

/// Slots in the pools of a layer that holds everything, for `pages` pages. Up to a sixteenth more
/// than `pages`, so that a growing sequence seldom moves its pools. It depends on nothing else, so
/// accounts of slot memory count what is allocated.
constexpr uint64_t PooledPages(uint64_t pages) {
  const uint64_t step = std::max<uint64_t>(std::bit_floor(pages) / 16, 1);
  return (pages + step - 1) / step * step;
}

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CACHE_CACHE_LAYOUT_H_
