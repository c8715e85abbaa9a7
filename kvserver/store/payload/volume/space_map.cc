// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/payload/volume/space_map.h"

#include <iterator>

namespace quire::kvserver {
namespace {

bool IsWholeBlocks(const BlockRun& run) {
  return run.length > 0 && run.offset % kBlockBytes == 0 && run.length % kBlockBytes == 0;
}

}  // namespace

Status SpaceMap::AddVolume(uint32_t volume, uint64_t begin, uint64_t end) {
  if (begin > end || begin % kBlockBytes != 0 || end % kBlockBytes != 0) {
    return InvalidArgument("volume ", volume, ": ", begin, "..", end, " are no block boundaries");
  }
  const auto [entry, inserted] = volumes_.try_emplace(volume, Volume{begin, end, {}});
  if (!inserted) return InvalidArgument("volume ", volume, " is in the space map already");
  capacity_bytes_ += end - begin;
  if (begin < end) InsertFree(entry->second, {volume, begin, end - begin});
  return OkStatus();
}

std::optional<std::vector<BlockRun>> SpaceMap::Allocate(uint64_t bytes) {
  if (bytes == 0 || bytes > free_bytes_) return std::nullopt;
  uint64_t rest = RoundUp(bytes, kBlockBytes);
  if (!CanHold(rest)) return std::nullopt;
  std::vector<BlockRun> runs;
  while (rest > 0) {
    auto fit = by_length_.lower_bound({.volume = 0, .offset = 0, .length = rest});
    if (fit == by_length_.end()) fit = std::prev(fit);
    BlockRun run = *fit;
    run.length = std::min(run.length, rest);
    Carve(volumes_.at(run.volume), run);
    rest -= run.length;
    runs.push_back(run);
  }
  return runs;
}

bool SpaceMap::CanHold(uint64_t bytes) const {
  uint64_t found = 0;
  size_t runs = 0;
  for (auto it = by_length_.rbegin(); it != by_length_.rend() && runs < kMaxRuns; ++it, ++runs) {
    found += it->length;
    if (found >= bytes) return true;
  }
  return false;
}

Status SpaceMap::Reserve(std::span<const BlockRun> runs) {
  for (size_t i = 0; i < runs.size(); ++i) {
    Volume* const volume = Containing(runs[i]);
    if (volume != nullptr && Carve(*volume, runs[i])) continue;
    for (const BlockRun& taken : runs.first(i)) Join(volumes_.at(taken.volume), taken);
    if (volume == nullptr) return DataLoss("the run at ", runs[i], " lies outside the volumes");
    return DataLoss("the run at ", runs[i], " overlaps one that is in use");
  }
  return OkStatus();
}

Status SpaceMap::Free(std::span<const BlockRun> runs) {
  for (size_t i = 0; i < runs.size(); ++i) {
    Volume* const volume = Containing(runs[i]);
    if (volume != nullptr && Join(*volume, runs[i])) continue;
    for (const BlockRun& freed : runs.first(i)) Carve(volumes_.at(freed.volume), freed);
    return InvalidArgument("the run at ", runs[i], " cannot be freed: not all of it is in use");
  }
  return OkStatus();
}

uint64_t SpaceMap::largest_free_run() const {
  return by_length_.empty() ? 0 : by_length_.rbegin()->length;
}

SpaceMap::Volume* SpaceMap::Containing(const BlockRun& run) {
  const auto found = volumes_.find(run.volume);
  if (found == volumes_.end() || !IsWholeBlocks(run)) return nullptr;
  const Volume& volume = found->second;
  const bool inside = run.offset >= volume.begin && run.offset < volume.end &&
                      run.length <= volume.end - run.offset;
  return inside ? &found->second : nullptr;
}

bool SpaceMap::Carve(Volume& volume, const BlockRun& run) {
  auto entry = volume.free.upper_bound(run.offset);
  if (entry == volume.free.begin()) return false;
  --entry;
  const auto [offset, length] = *entry;
  const uint64_t end = offset + length, run_end = run.offset + run.length;
  if (run_end > end) return false;
  EraseFree(volume, run.volume, entry);
  if (offset < run.offset) InsertFree(volume, {run.volume, offset, run.offset - offset});
  if (run_end < end) InsertFree(volume, {run.volume, run_end, end - run_end});
  return true;
}

bool SpaceMap::Join(Volume& volume, const BlockRun& run) {
  BlockRun joined = run;
  const auto next = volume.free.lower_bound(run.offset);
  const uint64_t run_end = run.offset + run.length;
  if (next != volume.free.end() && next->first < run_end) return false;
  if (next != volume.free.begin()) {
    const auto previous = std::prev(next);
    const uint64_t previous_end = previous->first + previous->second;
    if (previous_end > run.offset) return false;
    if (previous_end == run.offset) {
      joined.offset = previous->first;
      joined.length += previous->second;
      EraseFree(volume, run.volume, previous);
    }
  }
  if (next != volume.free.end() && next->first == run_end) {
    joined.length += next->second;
    EraseFree(volume, run.volume, next);
  }
  InsertFree(volume, joined);
  return true;
}

void SpaceMap::EraseFree(Volume& volume, uint32_t number,
                         std::map<uint64_t, uint64_t>::iterator entry) {
  by_length_.erase({number, entry->first, entry->second});
  free_bytes_ -= entry->second;
  volume.free.erase(entry);
}

void SpaceMap::InsertFree(Volume& volume, const BlockRun& run) {
  by_length_.insert(run);
  free_bytes_ += run.length;
  volume.free.emplace(run.offset, run.length);
}

}  // namespace quire::kvserver
