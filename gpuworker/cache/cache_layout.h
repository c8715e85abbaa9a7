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
  /// Tokens that a token sees, itself counted, in a layer with a sliding window. Without
  /// `everything` the window's pages are as many as they need, and there are no others. 0: all that
  /// is resident.
  uint32_t window_tokens = 0;

  uint32_t num_slots() const { return sink_pages + window_pages + selectable_pages; }
  /// True if a token's query decides what it attends to; the host recalls that first. Otherwise the
  /// number of tokens decides.
  bool selects() const { return !everything && selectable_pages > 0; }
  /// True if all that a token sees is resident, as in the model itself.
  bool exact() const { return everything || window_tokens > 0; }
  uint32_t most_selected() const { return selected_pages == 0 ? selectable_pages : selected_pages; }
  friend bool operator==(const CacheLayout&, const CacheLayout&) = default;
};

/// Layout of a layer of which a token sees `window` tokens: their pages, and no others.
/// `context_tokens`: no sequence is longer.
constexpr CacheLayout WindowLayout(uint32_t window, uint32_t page_tokens, uint64_t context_tokens) {
  const uint64_t seen = std::min<uint64_t>(window, context_tokens);
  // The first of them may be the last of its page.
  const auto pages = static_cast<uint32_t>((seen + page_tokens - 2) / page_tokens + 1);
  return {.window_pages = std::max(2u, pages), .window_tokens = window};
}

/// Slots in the pools of a layer that holds everything, for `pages` pages. Up to a sixteenth more
/// than `pages`, so that a growing sequence seldom moves its pools. It depends on nothing else, so
/// accounts of slot memory count what is allocated.
constexpr uint64_t PooledPages(uint64_t pages) {
  const uint64_t step = std::max<uint64_t>(std::bit_floor(pages) / 16, 1);
  return (pages + step - 1) / step * step;
}

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CACHE_CACHE_LAYOUT_H_
