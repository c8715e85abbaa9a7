// SPDX-License-Identifier: Apache-2.0
//
// PageTable: which page is in which slot of one layer. Pure bookkeeping; no bytes are moved here.
//
// Sinks and window have fixed slots that follow from the number of tokens alone. Selectable slots
// are shared by all KV heads, but each head's slice may hold another page. Keys carry their
// rotation, and attention does not depend on order. A resident page takes part in attention only
// while it is active, that is, part of the head's current selection.
//
// In a layer that is whole every page has a fixed slot. Candidates are resident then, and are only
// activated.
//
// Invariants: no head attends to a page twice. Every head attends to sinks, window and open page. A
// selectable slot holds the page of the placement with the highest generation.
//
// Thread-safety: none.
#ifndef QUIRE_GPUWORKER_CACHE_PAGE_TABLE_H_
#define QUIRE_GPUWORKER_CACHE_PAGE_TABLE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gpuworker/cache/cache_layout.h"
#include "quire/status.h"

namespace quire::worker {

/// A place for one token.
struct TokenPlace {
  uint32_t slot = 0;
  uint32_t row = 0;  ///< In [0, p).
};

/// One page put into a selectable slot of one head.
struct SlotPlacement {
  uint32_t head = 0;
  uint32_t index = 0;       ///< Selectable slot, counted from 0.
  uint32_t generation = 0;  ///< Generation of the slot after this placement; newer than its last.
  uint32_t page = 0;
  int32_t replaced = -1;  ///< Page that was there, -1 for none.
};

/// Input of attention: slots, and which rows of each every head sees.
struct AttendedSlots {
  std::vector<int32_t> slots;
  std::vector<int32_t> valid_tokens;  ///< [n_kv][slots.size()], 0 where a head sees nothing
  std::vector<int32_t> first_tokens;  ///< [slots.size()] rows before it are hidden; empty: none are
};

class PageTable {
 public:
  PageTable(const CacheLayout& layout, uint32_t page_tokens, uint32_t num_kv_heads);

  const CacheLayout& layout() const { return layout_; }
  uint64_t num_tokens() const { return num_tokens_; }
  /// Pages begun; the last one may be open.
  uint32_t num_pages() const;
  /// Slots that the pools must have for the tokens so far.
  uint32_t num_slots() const { return layout_.has_all_pages() ? num_pages() : layout_.num_slots(); }
  /// Sink pages that exist.
  PageRange sinks() const;
  /// Window pages, the open one counted; sinks are never among them. In a layer with a sliding
  /// window, those that the last token sees.
  PageRange window() const;
  /// Pages that are neither: what a policy selects from. Behind ExpectToken those of the next
  /// token.
  PageRange candidates() const;

  /// The slot of a sink or window page (of any page when everything is resident or the layer is
  /// whole); nullopt for other candidates and pages that do not exist.
  std::optional<uint32_t> FixedSlot(uint32_t page) const;
  /// The pages with fixed slots below `end_page`, ascending.
  std::vector<uint32_t> FixedPages(uint32_t end_page = UINT32_MAX) const;
  /// The pool's slot behind selectable slot `index`.
  uint32_t SelectableSlot(uint32_t index) const {
    return layout_.sink_pages + layout_.window_pages + index;
  }

  /// Takes the next token and says where it goes. Opening a page drops the oldest window page.
  TokenPlace AppendToken();
  /// Announces the next token. Placements and selections may then have the page that leaves the
  /// window with it. Nothing attends until AppendToken.
  void ExpectToken() { expected_ = 1; }
  /// An empty table starts with `num_tokens` tokens; the caller fills the fixed slots.
  void StartAt(uint64_t num_tokens) { num_tokens_ = num_tokens; }

  /// True when `head` has candidate `page` in a selectable slot.
  bool IsResident(uint32_t head, uint32_t page) const;
  /// Pages of `head` in attention now, ascending.
  std::vector<uint32_t> ActivePages(uint32_t head) const;
  /// The answer that Place would give; records nothing.
  [[nodiscard]] Status CheckPlacement(const SlotPlacement& placement) const;
  /// Records a placement; the page is not active yet. Changes nothing unless OK.
  /// FAILED_PRECONDITION: a stale generation, a slot that holds another page than `replaced`, a
  /// page that is always resident or resident in another slot. INVALID_ARGUMENT: out of range.
  [[nodiscard]] Status Place(const SlotPlacement& placement);
  /// Makes `pages` (ascending) the selection of `head`. FAILED_PRECONDITION, with the selection
  /// unchanged, when one of them is not resident.
  [[nodiscard]] Status Activate(uint32_t head, std::span<const uint32_t> pages);

  /// Makes a layer that selects whole, or not. No candidate is active then, and selectable slots
  /// are empty. The caller moves the pages.
  void SetWhole(bool whole);
  /// Marks the selectable slots as empty, because their contents are unknown. Keeps generations.
  void EmptySelectable();

  void ListAttended(AttendedSlots* out) const;
  /// Tokens that `head` attends to.
  uint64_t AttendedTokens(uint32_t head) const;

 private:
  struct Slot {
    int32_t page = -1;
    uint32_t generation = 0;
    bool active = false;
  };
  uint32_t RowsOf(uint32_t page) const;
  uint32_t PagesOf(uint64_t tokens) const;
  /// sinks() and window() of a table with `tokens` tokens.
  PageRange SinksOf(uint64_t tokens) const;
  PageRange WindowOf(uint64_t tokens) const;
  /// First token that the last of `tokens` sees.
  uint64_t FirstSeen(uint64_t tokens) const;
  uint64_t FirstSeen() const { return FirstSeen(num_tokens_); }
  Slot& At(uint32_t head, uint32_t index) {
    return slots_[size_t{head} * layout_.selectable_pages + index];
  }
  const Slot& At(uint32_t head, uint32_t index) const {
    return slots_[size_t{head} * layout_.selectable_pages + index];
  }
  /// Selectable slot of `page`, -1 when it is not resident.
  int32_t IndexOf(uint32_t head, uint32_t page) const;
  /// Adds to the slots of fixed pages, which have `fixed_rows`, those of candidates that some head
  /// attends to; of a layer that is whole.
  void ListActive(const std::vector<int32_t>& fixed_rows, AttendedSlots* out) const;

  CacheLayout layout_;
  const uint32_t page_tokens_;
  const uint32_t num_kv_heads_;
  uint64_t num_tokens_ = 0;
  uint32_t expected_ = 0;                        ///< Tokens that ExpectToken has announced, 0 or 1.
  std::vector<Slot> slots_;                      ///< [n_kv][selectable]
  std::vector<std::vector<int32_t>> page_slot_;  ///< [n_kv][page]: inverse of slots_, grown on use
  std::vector<std::vector<uint32_t>> active_;    ///< [n_kv] active pages of a layer that is whole
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CACHE_PAGE_TABLE_H_
