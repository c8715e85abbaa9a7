// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/recall/host_units.h"

#include <algorithm>
#include <utility>

#include "common/base/memory/payload_cutter.h"

namespace quire::worker {
namespace {

StatusOr<std::vector<SlotPlacement>> PlacementsOf(uint32_t layer, const RecallPart& part) {
  std::vector<SlotPlacement> placements;
  placements.reserve(part.placements.size());
  for (const Placement& at : part.placements) {
    if (at.layer != layer) {
      return FailedPrecondition("a recall of layer ", layer, " places a unit of layer ", at.layer);
    }
    placements.push_back({.head = at.head,
                          .index = at.slot,
                          .generation = at.generation,
                          .page = at.page,
                          .replaced = at.replaced});
  }
  return placements;
}

}  // namespace

HostUnits::HostUnits(const HostPages& host, const PageTable& table, const CodecSet& codecs,
                     LayerWant* want) {
  if (!host.enabled()) return;
  for (uint32_t head = 0; head < want->pages.num_heads(); ++head) {
    want->held.AppendHead();
    for (const uint32_t page : want->pages.Head(head)) {
      if (table.IsResident(head, page)) continue;
      auto unit = host.Get(want->layer, head, page);
      if (!unit || !codecs.Has(unit->codec)) continue;
      want->held.Append(page);
      units_.push_back(*std::move(unit));
    }
  }
}

StatusOr<ArrivedUnits> HostUnits::Merge(uint32_t layer, const RecallPart& part,
                                        const UnitSizes& sizes) const {
  ArrivedUnits arrived{.layer = layer, .checksums = part.checksums, .codecs = part.codecs};
  QUIRE_ASSIGN_OR_RETURN(arrived.placements, PlacementsOf(layer, part));
  if (part.held.empty()) {
    arrived.units = part.payload;  // More of it may follow.
    return arrived;
  }
  arrived.units.AddLeases(part.payload);
  arrived.codecs.resize(part.placements.size(), UnitCodec::kRaw);
  PayloadCutter cutter(part.payload);
  auto held = part.held.begin();
  auto unit = units_.begin();  // Both ascend by head and page.
  for (size_t i = 0; i < part.placements.size(); ++i) {
    if (held == part.held.end() || *held != i) {
      const Payload sent = cutter.Cut(sizes.Of(part.CodecOf(i)));
      for (const Slice& slice : sent.slices()) arrived.units.Append(slice);
      continue;
    }
    ++held;
    const Placement& at = part.placements[i];
    unit = std::find_if(unit, units_.end(), [&](const HostPages::Unit& other) {
      return other.head == at.head && other.page == at.page;
    });
    if (unit == units_.end()) return Internal("page ", at.page, " is held, but not here");
    arrived.units.Append(unit->bytes);
    arrived.checksums[i] = unit->crc32c;
    arrived.codecs[i] = unit->codec;
  }
  return arrived;
}

}  // namespace quire::worker
