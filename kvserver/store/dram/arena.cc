// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/dram/arena.h"

#include <algorithm>
#include <utility>

namespace quire::kvserver {
namespace {

constexpr uint64_t kMaxSlabBytes = 16 << 20;
// Least number of slabs, so that several slot sizes fit in a small arena.
constexpr uint64_t kMinSlabs = 16;

/// A slab holds whole huge pages where it has room for one.
uint64_t SlabBytes(uint64_t arena_bytes) {
  const uint64_t share = std::min(arena_bytes / kMinSlabs, kMaxSlabBytes);
  const uint64_t unit =
      share >= ArenaMemory::kHugePageBytes ? ArenaMemory::kHugePageBytes : Arena::kSlotAlignBytes;
  return share / unit * unit;
}

Status CheckSize(uint64_t bytes, const MemoryLimit& limit) {
  if (bytes >= Arena::kMinBytes) return CheckWithin(limit, "dram_bytes", bytes);
  return InvalidArgument("dram_bytes is ", bytes, ", must be ", Arena::kMinBytes, " or more");
}

}  // namespace

StatusOr<std::unique_ptr<Arena>> Arena::Reserve(const ArenaMemory::Options& options,
                                                const MemoryLimit& limit) {
  QUIRE_RETURN_IF_ERROR(CheckSize(options.bytes, limit));
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<ArenaMemory> memory, ArenaMemory::Map(options));
  return std::unique_ptr<Arena>(
      new Arena(std::move(memory), options.bytes, SlabBytes(options.bytes)));
}

Arena::Arena(std::unique_ptr<ArenaMemory> memory, uint64_t bytes, uint64_t slab_bytes)
    : memory_(std::move(memory)),
      bytes_(bytes),
      slab_bytes_(slab_bytes),
      num_slabs_(static_cast<uint32_t>(bytes / slab_bytes)),
      prepared_(num_slabs_),
      slabs_(num_slabs_) {
  for (uint32_t slab = num_slabs_; slab > 0; --slab) pool_.push_back(slab - 1);
}

uint64_t Arena::SlotBytes(uint64_t bytes) {
  return (bytes + kSlotAlignBytes - 1) / kSlotAlignBytes * kSlotAlignBytes;
}

std::optional<Arena::Slot> Arena::Allocate(uint64_t bytes) {
  if (!Fits(bytes)) return std::nullopt;
  MutexLock lock(mutex_);
  const std::optional<uint32_t> number = SlabWithRoom(SlotBytes(bytes));
  if (!number) return std::nullopt;
  Slab& slab = slabs_[*number];
  const Slot slot{.slab = *number, .index = slab.free.back(), .generation = next_generation_++};
  slab.free.pop_back();
  if (slab.free.empty()) RemoveWithRoom(*number);
  slab.generations[slot.index] = slot.generation;
  ++slab.used;
  ++classes_[slab.slot_bytes].slots_used;
  used_bytes_ += slab.slot_bytes;
  return slot;
}

std::optional<uint32_t> Arena::SlabWithRoom(uint64_t slot_bytes) {
  const auto known = classes_.find(slot_bytes);
  if (known == classes_.end() || known->second.with_room.empty()) {
    if (pool_.empty()) return std::nullopt;
    TakeFromPool(slot_bytes);
  }
  return classes_[slot_bytes].with_room.back();
}

void Arena::TakeFromPool(uint64_t slot_bytes) {
  const uint32_t number = pool_.back();
  pool_.pop_back();
  Slab& slab = slabs_[number];
  const auto slots = static_cast<uint32_t>(slab_bytes_ / slot_bytes);
  slab.slot_bytes = slot_bytes;
  slab.generations.assign(slots, 0);
  for (uint32_t i = slots; i > 0; --i) slab.free.push_back(i - 1);
  ++classes_[slot_bytes].slabs;
  AddWithRoom(number);
}

void Arena::Free(const Slot& slot) {
  MutexLock lock(mutex_);
  if (!IsLive(slot)) return;
  Slab& slab = slabs_[slot.slab];
  used_bytes_ -= slab.slot_bytes;
  --classes_[slab.slot_bytes].slots_used;
  slab.generations[slot.index] = 0;
  if (slab.free.empty()) AddWithRoom(slot.slab);
  slab.free.push_back(slot.index);
  if (--slab.used == 0) ReturnToPool(slot.slab);
}

void Arena::ReturnToPool(uint32_t number) {
  RemoveWithRoom(number);
  const auto size_class = classes_.find(slabs_[number].slot_bytes);
  if (--size_class->second.slabs == 0) classes_.erase(size_class);
  slabs_[number] = Slab{};
  pool_.push_back(number);
}

void Arena::AddWithRoom(uint32_t number) {
  std::vector<uint32_t>& with_room = classes_[slabs_[number].slot_bytes].with_room;
  slabs_[number].place_with_room = with_room.size();
  with_room.push_back(number);
}

void Arena::RemoveWithRoom(uint32_t number) {
  std::vector<uint32_t>& with_room = classes_[slabs_[number].slot_bytes].with_room;
  const uint32_t last = with_room.back();
  with_room[slabs_[number].place_with_room] = last;
  slabs_[last].place_with_room = slabs_[number].place_with_room;
  with_room.pop_back();
}

bool Arena::IsLive(const Slot& slot) const {
  return slot.generation != 0 && slot.slab < slabs_.size() &&
         slot.index < slabs_[slot.slab].generations.size() &&
         slabs_[slot.slab].generations[slot.index] == slot.generation;
}

std::span<std::byte> Arena::Bytes(const Slot& slot) {
  MutexLock lock(mutex_);
  if (!IsLive(slot)) return {};
  const uint64_t slot_bytes = slabs_[slot.slab].slot_bytes;
  return SlabSpan(slot.slab).subspan(slot.index * slot_bytes, slot_bytes);
}

void Arena::Prepare(const Slot& slot) {
  std::atomic<bool>& prepared = prepared_[slot.slab];
  if (prepared.load(std::memory_order_relaxed)) return;
  if (!prepared.exchange(true, std::memory_order_relaxed)) memory_->Prepare(SlabSpan(slot.slab));
}

uint32_t Arena::UsedSlots(uint32_t slab) const {
  MutexLock lock(mutex_);
  return slabs_[slab].used;
}

uint64_t Arena::used_bytes() const {
  MutexLock lock(mutex_);
  return used_bytes_;
}

std::vector<Arena::ClassUse> Arena::Classes() const {
  MutexLock lock(mutex_);
  std::vector<ClassUse> classes;
  for (const auto& [slot_bytes, use] : classes_) {
    classes.push_back({.slot_bytes = slot_bytes, .slabs = use.slabs, .slots_used = use.slots_used});
  }
  return classes;
}

}  // namespace quire::kvserver
