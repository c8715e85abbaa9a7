// SPDX-License-Identifier: Apache-2.0
#include "kvserver/session/unit_gather.h"

#include <utility>

#include "quire/layout.h"
#include "quire/page_name.h"

namespace quire::kvserver {

void UnitGather::Clear() {
  stored_.clear();
  tails_.clear();
  units_.clear();
}

void UnitGather::Add(std::span<const MemberView> members, uint32_t layer, uint32_t head,
                     std::span<const uint32_t> pages) {
  for (const uint32_t name : pages) {
    const MemberView& member = members[MemberOf(name)];
    const ContextView& view = *member.view;
    const uint32_t page = PageOf(name);
    if (page < member.tail_first_page) {
      const uint32_t g = view.spec->segment_pages;
      const uint32_t segment = page / g;
      stored_.push_back(
          {(*view.keys)[segment], layer, UnitIndex(*view.spec, page - segment * g, head)});
    } else {
      tails_.push_back({stored_.size() + tails_.size(), TailUnitOf(view, {layer, page, head})});
    }
  }
}

Status UnitGather::Read(PageStore& store, const Caller& caller, const CodecSet& codecs) {
  units_.clear();
  if (!stored_.empty()) QUIRE_RETURN_IF_ERROR(store.ReadUnits(caller, stored_, codecs, &units_));
  if (!tails_.empty()) MergeTails();
  return OkStatus();
}

void UnitGather::MergeTails() {
  size_t next_stored = units_.size();
  units_.resize(stored_.size() + tails_.size());
  auto tail = tails_.rbegin();
  // From the back, so that no unit is overwritten. Units before the first tail stay in place.
  for (size_t i = units_.size(); tail != tails_.rend() && i-- > 0;) {
    if (tail->position == i) {
      units_[i] = std::move(tail->unit);
      ++tail;
    } else {
      units_[i] = std::move(units_[--next_stored]);
    }
  }
}

}  // namespace quire::kvserver
