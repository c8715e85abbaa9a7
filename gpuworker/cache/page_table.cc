// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/cache/page_table.h"

#include <algorithm>

#include "quire/layout.h"

namespace quire::worker {

PageTable::PageTable(const CacheLayout& layout, uint32_t page_tokens, uint32_t num_kv_heads)
    : layout_(layout),
      page_tokens_(page_tokens),
      num_kv_heads_(num_kv_heads),
      slots_(layout.everything ? 0 : size_t{num_kv_heads} * layout.selectable_pages),
      page_slot_(num_kv_heads),
      active_(num_kv_heads) {}

uint32_t PageTable::PagesOf(uint64_t tokens) const {
  return static_cast<uint32_t>(DivideRoundUp(tokens, page_tokens_));
}

uint32_t PageTable::num_pages() const { return PagesOf(num_tokens_); }

PageRange PageTable::SinksOf(uint64_t tokens) const {
  return {0, layout_.everything ? 0 : std::min(layout_.sink_pages, PagesOf(tokens))};
}

PageRange PageTable::WindowOf(uint64_t tokens) const {
  const uint32_t pages = PagesOf(tokens);
  if (layout_.everything) return {0, pages};
  const uint32_t kept = pages > layout_.window_pages ? pages - layout_.window_pages : 0;
  const uint32_t oldest = std::max(kept, static_cast<uint32_t>(FirstSeen(tokens) / page_tokens_));
  return {std::min(pages, std::max(layout_.sink_pages, oldest)), pages};
}

PageRange PageTable::sinks() const { return SinksOf(num_tokens_); }
PageRange PageTable::window() const { return WindowOf(num_tokens_); }

PageRange PageTable::candidates() const {
  const uint64_t tokens = num_tokens_ + expected_;
  const uint32_t first = SinksOf(tokens).end;
  return {first, std::max(first, WindowOf(tokens).first)};
}

std::optional<uint32_t> PageTable::FixedSlot(uint32_t page) const {
  if (page >= num_pages()) return std::nullopt;
  if (layout_.has_all_pages() || page < layout_.sink_pages) return page;
  if (!window().contains(page)) return std::nullopt;
  return layout_.sink_pages + (page - layout_.sink_pages) % layout_.window_pages;
}

std::vector<uint32_t> PageTable::FixedPages(uint32_t end_page) const {
  std::vector<uint32_t> pages;
  for (uint32_t page = 0; page < std::min(end_page, num_pages()); ++page) {
    if (layout_.has_all_pages() || !candidates().contains(page)) pages.push_back(page);
  }
  return pages;
}

TokenPlace PageTable::AppendToken() {
  const uint64_t position = num_tokens_++;
  expected_ = 0;
  const uint32_t page = static_cast<uint32_t>(position / page_tokens_);
  return {*FixedSlot(page), static_cast<uint32_t>(position % page_tokens_)};
}

int32_t PageTable::IndexOf(uint32_t head, uint32_t page) const {
  const std::vector<int32_t>& index = page_slot_[head];
  return page < index.size() ? index[page] : -1;
}

bool PageTable::IsResident(uint32_t head, uint32_t page) const {
  return layout_.whole ? candidates().contains(page) : IndexOf(head, page) >= 0;
}

std::vector<uint32_t> PageTable::ActivePages(uint32_t head) const {
  if (layout_.whole) return active_[head];
  std::vector<uint32_t> pages;
  for (uint32_t i = 0; i < layout_.selectable_pages; ++i) {
    if (At(head, i).active) pages.push_back(static_cast<uint32_t>(At(head, i).page));
  }
  std::sort(pages.begin(), pages.end());
  return pages;
}

Status PageTable::CheckPlacement(const SlotPlacement& placement) const {
  if (layout_.everything || placement.head >= num_kv_heads_ ||
      placement.index >= layout_.selectable_pages) {
    return InvalidArgument("placement into slot ", placement.index, " of KV head ", placement.head,
                           ": there are ", num_kv_heads_, " heads with ",
                           layout_.everything ? 0 : layout_.selectable_pages, " slots");
  }
  if (layout_.whole) {
    return FailedPrecondition("placement of page ", placement.page,
                              " into a layer that has all pages");
  }
  if (!candidates().contains(placement.page)) {
    return FailedPrecondition("placement of page ", placement.page, ", which is not among pages ",
                              candidates().first, " to ", candidates().end,
                              " that can be selected");
  }
  const Slot& slot = At(placement.head, placement.index);
  if (placement.generation <= slot.generation) {
    return FailedPrecondition("stale placement: slot ", placement.index, " of KV head ",
                              placement.head, " has generation ", slot.generation,
                              ", the placement names ", placement.generation);
  }
  if (placement.replaced != slot.page) {
    return FailedPrecondition("placement into slot ", placement.index, " of KV head ",
                              placement.head, " expects page ", placement.replaced,
                              " there, but it holds ", slot.page);
  }
  if (const int32_t index = IndexOf(placement.head, placement.page); index >= 0) {
    return FailedPrecondition("placement of page ", placement.page, ", which KV head ",
                              placement.head, " holds in slot ", index);
  }
  return OkStatus();
}

Status PageTable::Place(const SlotPlacement& placement) {
  QUIRE_RETURN_IF_ERROR(CheckPlacement(placement));
  std::vector<int32_t>& index = page_slot_[placement.head];
  if (placement.replaced >= 0) index[static_cast<uint32_t>(placement.replaced)] = -1;
  if (placement.page >= index.size()) index.resize(size_t{placement.page} + 1, -1);
  index[placement.page] = static_cast<int32_t>(placement.index);
  At(placement.head, placement.index) = {.page = static_cast<int32_t>(placement.page),
                                         .generation = placement.generation};
  return OkStatus();
}

Status PageTable::Activate(uint32_t head, std::span<const uint32_t> pages) {
  for (uint32_t page : pages) {
    if (!IsResident(head, page)) {
      return FailedPrecondition("page ", page, " is selected for KV head ", head,
                                " but is in none of its slots");
    }
  }
  if (layout_.whole) {
    active_[head].assign(pages.begin(), pages.end());
    return OkStatus();
  }
  for (uint32_t i = 0; i < layout_.selectable_pages; ++i) At(head, i).active = false;
  for (uint32_t page : pages) {
    At(head, static_cast<uint32_t>(IndexOf(head, page))).active = true;
  }
  return OkStatus();
}

void PageTable::SetWhole(bool whole) {
  layout_.whole = whole;
  EmptySelectable();
}

void PageTable::EmptySelectable() {
  for (std::vector<uint32_t>& pages : active_) pages.clear();
  for (Slot& slot : slots_) slot = {.page = -1, .generation = slot.generation, .active = false};
  for (std::vector<int32_t>& index : page_slot_) index.clear();
}

uint32_t PageTable::RowsOf(uint32_t page) const {
  const uint64_t rest = num_tokens_ - uint64_t{page} * page_tokens_;
  return static_cast<uint32_t>(std::min<uint64_t>(rest, page_tokens_));
}

uint64_t PageTable::FirstSeen(uint64_t tokens) const {
  const uint64_t seen = layout_.window_tokens;
  return seen == 0 || tokens < seen ? 0 : tokens - seen;
}

void PageTable::ListAttended(AttendedSlots* out) const {
  out->slots.clear();
  out->first_tokens.clear();
  std::vector<int32_t> fixed_rows;
  // A layer that holds everything has pages that its sliding window hides.
  const auto first_page = static_cast<uint32_t>(FirstSeen() / page_tokens_);
  for (const PageRange& range : {sinks(), window()}) {
    for (uint32_t page = std::max(range.first, first_page); page < range.end; ++page) {
      out->slots.push_back(static_cast<int32_t>(*FixedSlot(page)));
      fixed_rows.push_back(static_cast<int32_t>(RowsOf(page)));
      if (layout_.window_tokens == 0) continue;
      const uint64_t begin = uint64_t{page} * page_tokens_;
      out->first_tokens.push_back(static_cast<int32_t>(std::max(FirstSeen(), begin) - begin));
    }
  }
  if (layout_.whole) return ListActive(fixed_rows, out);
  const uint32_t selectable = layout_.everything ? 0 : layout_.selectable_pages;
  for (uint32_t i = 0; i < selectable; ++i) {
    out->slots.push_back(static_cast<int32_t>(SelectableSlot(i)));
  }
  out->valid_tokens.clear();
  for (uint32_t head = 0; head < num_kv_heads_; ++head) {
    out->valid_tokens.insert(out->valid_tokens.end(), fixed_rows.begin(), fixed_rows.end());
    for (uint32_t i = 0; i < selectable; ++i) {
      out->valid_tokens.push_back(At(head, i).active ? static_cast<int32_t>(page_tokens_) : 0);
    }
  }
}

void PageTable::ListActive(const std::vector<int32_t>& fixed_rows, AttendedSlots* out) const {
  std::vector<uint32_t> pages;  // Pages of all heads; the slot of each is its number.
  for (const std::vector<uint32_t>& active : active_) {
    pages.insert(pages.end(), active.begin(), active.end());
  }
  std::ranges::sort(pages);
  pages.erase(std::unique(pages.begin(), pages.end()), pages.end());
  out->slots.insert(out->slots.end(), pages.begin(), pages.end());
  out->valid_tokens.clear();
  for (const std::vector<uint32_t>& active : active_) {
    out->valid_tokens.insert(out->valid_tokens.end(), fixed_rows.begin(), fixed_rows.end());
    auto next = active.begin();
    for (const uint32_t page : pages) {
      const bool attends = next != active.end() && *next == page;
      if (attends) ++next;
      out->valid_tokens.push_back(attends ? static_cast<int32_t>(page_tokens_) : 0);
    }
  }
}

uint64_t PageTable::AttendedTokens(uint32_t head) const {
  if (layout_.exact()) return num_tokens_ - FirstSeen();
  uint64_t tokens = 0;
  for (const PageRange& range : {sinks(), window()}) {
    for (uint32_t page = range.first; page < range.end; ++page) tokens += RowsOf(page);
  }
  if (layout_.whole) return tokens + active_[head].size() * page_tokens_;
  for (uint32_t i = 0; i < layout_.selectable_pages; ++i) {
    tokens += At(head, i).active ? page_tokens_ : 0;
  }
  return tokens;
}

}  // namespace quire::worker
