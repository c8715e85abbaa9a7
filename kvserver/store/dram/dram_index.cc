// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/dram/dram_index.h"

#include <algorithm>
#include <utility>

namespace quire::kvserver {

size_t DramIndex::Read(std::string_view tenant, std::span<const UnitAddress> units,
                       std::span<UnitBytes> out) {
  size_t handed_out = 0;
  for (size_t first = 0; first < units.size();) {
    size_t last = first + 1;
    while (last < units.size() && units[last].segment == units[first].segment) ++last;
    handed_out +=
        ReadSegment(tenant, units.subspan(first, last - first), out.subspan(first, last - first));
    first = last;
  }
  return handed_out;
}

size_t DramIndex::ReadSegment(std::string_view tenant, std::span<const UnitAddress> units,
                              std::span<UnitBytes> out) {
  Shard& shard = ShardOf(units.front().segment);
  MutexLock lock(shard.mutex);
  const auto it = shard.segments.find(units.front().segment);
  size_t handed_out = 0;
  for (size_t first = 0; first < units.size();) {
    const uint32_t layer = units[first].layer;
    const ResidentPtr* resident = it == shard.segments.end() ? nullptr : it->second.At(layer);
    if (resident != nullptr && (*resident)->tenant() != tenant) resident = nullptr;
    const size_t handed_out_before = handed_out;
    for (; first < units.size() && units[first].layer == layer; ++first) {
      if (resident == nullptr || units[first].unit >= (*resident)->num_units()) {
        out[first] = UnitBytes();
        continue;
      }
      out[first] = Resident::Unit(*resident, units[first].unit);
      ++handed_out;
    }
    if (handed_out > handed_out_before) Note({units.front().segment, layer}, shard);
  }
  return handed_out;
}

void DramIndex::Note(const ExtentId& id, Shard& shard) {
  if (shard.num_notes == kNotes) {
    notes_dropped_.Add();
    return;
  }
  shard.notes[shard.num_notes++] = id;
  if (shard.num_notes == kNotes) notes_full_.store(true, std::memory_order_relaxed);
}

void DramIndex::TakeNotes(const std::function<void(const ExtentId&)>& visit) {
  notes_full_.store(false, std::memory_order_relaxed);
  Notes taken;
  for (Shard& shard : shards_) {
    uint32_t count = 0;
    {
      MutexLock lock(shard.mutex);
      count = shard.num_notes;
      std::copy_n(shard.notes.begin(), count, taken.begin());
      shard.num_notes = 0;
    }
    for (uint32_t i = 0; i < count; ++i) visit(taken[i]);
  }
}

std::optional<UnitBytes> DramIndex::ReadUnit(const ExtentId& id, uint32_t unit) {
  Shard& shard = ShardOf(id.segment);
  MutexLock lock(shard.mutex);
  const ResidentPtr* const resident = shard.Find(id);
  if (resident == nullptr || unit >= (*resident)->num_units()) return std::nullopt;
  Note(id, shard);
  return Resident::Unit(*resident, unit);
}

ResidentPtr DramIndex::Get(const ExtentId& id) const {
  const Shard& shard = ShardOf(id.segment);
  MutexLock lock(shard.mutex);
  const ResidentPtr* const resident = shard.Find(id);
  return resident == nullptr ? nullptr : *resident;
}

bool DramIndex::Walk(Cursor* cursor, std::vector<ExtentId>* out) const {
  constexpr size_t kBuckets = 16;
  if (cursor->shard == kShards) return false;
  const Shard& shard = shards_[cursor->shard];
  MutexLock lock(shard.mutex);
  const size_t end = std::min(cursor->bucket + kBuckets, shard.segments.bucket_count());
  for (; cursor->bucket < end; ++cursor->bucket) {
    for (auto it = shard.segments.begin(cursor->bucket); it != shard.segments.end(cursor->bucket);
         ++it) {
      for (uint32_t layer = 0; layer < it->second.layers.size(); ++layer) {
        if (it->second.At(layer) != nullptr) out->push_back({it->first, layer});
      }
    }
  }
  if (cursor->bucket >= shard.segments.bucket_count()) *cursor = {cursor->shard + 1, 0};
  return true;
}

bool DramIndex::Has(const ExtentId& id) const { return Peek(id) != nullptr; }

bool DramIndex::HasAny(const SegmentKey& segment) const {
  const Shard& shard = ShardOf(segment);
  MutexLock lock(shard.mutex);
  return shard.segments.contains(segment);
}

bool DramIndex::Insert(const ExtentId& id, ResidentPtr resident) {
  Shard& shard = ShardOf(id.segment);
  MutexLock lock(shard.mutex);
  Segment& segment = shard.segments[id.segment];
  if (segment.layers.size() <= id.layer) segment.layers.resize(id.layer + 1);
  segment.layers[id.layer] = std::move(resident);
  return ++segment.held == 1;
}

ResidentPtr DramIndex::Remove(const ExtentId& id) {
  Shard& shard = ShardOf(id.segment);
  MutexLock lock(shard.mutex);
  if (shard.Find(id) == nullptr) return nullptr;
  const auto it = shard.segments.find(id.segment);
  ResidentPtr removed = std::move(it->second.layers[id.layer]);
  if (--it->second.held == 0) shard.segments.erase(it);
  return removed;
}

const ResidentPtr* DramIndex::Peek(const ExtentId& id) const {
  const Shard& shard = ShardOf(id.segment);
  MutexLock lock(shard.mutex);
  return shard.Find(id);
}

std::vector<uint32_t> DramIndex::LayersOf(const SegmentKey& segment) const {
  const Shard& shard = ShardOf(segment);
  MutexLock lock(shard.mutex);
  std::vector<uint32_t> layers;
  const auto it = shard.segments.find(segment);
  if (it == shard.segments.end()) return layers;
  for (uint32_t layer = 0; layer < it->second.layers.size(); ++layer) {
    if (it->second.At(layer) != nullptr) layers.push_back(layer);
  }
  return layers;
}

}  // namespace quire::kvserver
