// SPDX-License-Identifier: Apache-2.0
#include "client/spanning/lane_merge.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/memory/payload_cutter.h"

namespace quire::internal {
namespace {

bool Holds(const PageLists& held, uint32_t head, uint32_t page) {
  return held.num_heads() > 0 && std::ranges::binary_search(held.Head(head), page);
}

/// Takes the units of the pieces one by one, and joins neighbours of one piece to one cut.
class UnitTaker {
 public:
  UnitTaker(const SequencePlaces& places, const UnitSizes& sizes,
            std::span<const RecallPart> pieces, RecallPart* merged)
      : places_(places), sizes_(sizes), pieces_(pieces), merged_(*merged) {
    for (const RecallPart& piece : pieces) cursors_.push_back({PayloadCutter(piece.payload)});
  }

  /// Moves the next unit of `page`'s node, which has to be that page.
  Status Take(uint32_t head, uint32_t page) {
    const size_t fragment = places_.FragmentOf(MemberOf(page));
    const RecallPart& piece = pieces_[fragment];
    const size_t at = cursors_[fragment].next++;
    if (at >= piece.placements.size() || !IsPage(piece.placements[at], fragment, head, page)) {
      return Mixed(fragment);
    }
    const UnitCodec codec = piece.CodecOf(at);
    if (fragment != run_) Cut();
    run_ = fragment;
    run_bytes_ += sizes_.Of(codec);
    merged_.checksums.push_back(piece.checksums[at]);
    merged_.codecs.push_back(codec);
    return OkStatus();
  }
  /// Ends the last cut. DATA_LOSS when a piece has more units.
  Status Finish() {
    Cut();
    for (size_t fragment = 0; fragment < pieces_.size(); ++fragment) {
      if (cursors_[fragment].next != pieces_[fragment].placements.size()) return Mixed(fragment);
    }
    return OkStatus();
  }

 private:
  struct Cursor {
    PayloadCutter payload;
    size_t next = 0;
  };
  bool IsPage(const Placement& unit, size_t fragment, uint32_t head, uint32_t page) const {
    return unit.head == head && places_.HasLocal(fragment, unit.page) &&
           places_.GlobalName(fragment, unit.page) == page;
  }
  Status Mixed(size_t fragment) const {
    return DataLoss("node at ", places_.fragments()[fragment].address,
                    " sent other units than those asked for");
  }
  void Cut() {
    if (run_bytes_ == 0) return;
    merged_.payload.Append(cursors_[run_].payload.Cut(std::exchange(run_bytes_, 0)));
  }

  const SequencePlaces& places_;
  const UnitSizes& sizes_;
  const std::span<const RecallPart> pieces_;
  RecallPart& merged_;
  std::vector<Cursor> cursors_;
  size_t run_ = 0;
  uint64_t run_bytes_ = 0;
};

}  // namespace

void PlanLane(const SequencePlaces& places, const PageLists& pages, SlotMap* map,
              PlannedLane* lane) {
  SlotMap::Scratch scratch;
  map->Plan(pages, scratch, &lane->placed);
  const PlacedUnits& placed = lane->placed;
  lane->wanted.assign(places.fragments().size(), {});
  size_t unit = 0;
  for (uint32_t head = 0; head < placed.counts.size(); ++head) {
    for (PageLists& wanted : lane->wanted) wanted.AppendHead();
    for (const size_t end = unit + placed.counts[head]; unit < end; ++unit) {
      const uint32_t page = placed.pages[unit];
      if (Holds(lane->held, head, page)) continue;
      lane->wanted[places.FragmentOf(MemberOf(page))].Append(places.LocalName(page));
    }
  }
  for (PageLists& wanted : lane->wanted) {
    if (wanted.num_pages() == 0) wanted.Clear();
  }
}

StatusOr<RecallPart> MergeLane(const SequencePlaces& places, const UnitSizes& sizes,
                               PlannedLane lane, std::span<const RecallPart> pieces) {
  const PlacedUnits& placed = lane.placed;
  RecallPart merged;
  UnitTaker taker(places, sizes, pieces, &merged);
  uint32_t head = 0;
  size_t end_of_head = placed.counts.empty() ? 0 : placed.counts[0];
  for (size_t i = 0; i < placed.size(); ++i) {
    while (i == end_of_head) end_of_head += placed.counts[++head];
    merged.placements.push_back({.sequence = lane.sequence,
                                 .layer = lane.layer,
                                 .head = head,
                                 .slot = placed.slots[i],
                                 .generation = placed.generations[i],
                                 .page = placed.pages[i],
                                 .replaced = placed.replaced[i]});
    if (!Holds(lane.held, head, placed.pages[i])) {
      QUIRE_RETURN_IF_ERROR(taker.Take(head, placed.pages[i]));
      continue;
    }
    merged.held.push_back(i);
    merged.checksums.push_back(0);
    merged.codecs.push_back(UnitCodec::kRaw);
  }
  QUIRE_RETURN_IF_ERROR(taker.Finish());
  if (sizes.only_raw()) merged.codecs.clear();
  for (const RecallPart& piece : pieces) {
    merged.payload.AddLeases(piece.payload);
    merged.valid_until = std::min(merged.valid_until, piece.valid_until);
  }
  merged.lanes.push_back({.sequence = lane.sequence,
                          .layer = lane.layer,
                          .exchange = lane.exchange,
                          .first_placement = 0,
                          .end_placement = placed.size(),
                          .selected = std::move(lane.selected)});
  return merged;
}

}  // namespace quire::internal
