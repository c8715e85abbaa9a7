// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/dram_tier.h"

#include <cstring>
#include <utility>

#include "common/base/retry_hint.h"

namespace quire::kvserver {
namespace {

constexpr Duration kRetryWhenHeld = std::chrono::milliseconds(20);

}  // namespace

/// An extent in its slot. The index holds one reference; every further one is a reader's pin.
struct DramTier::Resident {
  Resident(std::shared_ptr<Arena> in, const Arena::Slot& at, const ExtentView& extent)
      : arena(std::move(in)),
        slot(at),
        bytes(arena->Bytes(at).first(extent.bytes.size())),
        full_bytes(extent.full_bytes),
        unit_bytes(extent.unit_bytes()),
        unit_crc32c(extent.unit_crc32c.begin(), extent.unit_crc32c.end()) {}
  ~Resident() { arena->Free(slot); }
  Resident(const Resident&) = delete;
  Resident& operator=(const Resident&) = delete;

  const std::shared_ptr<Arena> arena;
  const Arena::Slot slot;
  const std::span<std::byte> bytes;
  const uint64_t full_bytes;
  const uint64_t unit_bytes;
  const std::vector<uint32_t> unit_crc32c;
};

StatusOr<std::unique_ptr<DramTier>> DramTier::Open(uint64_t bytes,
                                                   std::unique_ptr<EvictionPolicy> policy) {
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<Arena> arena, Arena::Reserve(bytes));
  return std::unique_ptr<DramTier>(new DramTier(std::move(arena), std::move(policy)));
}

DramTier::DramTier(std::unique_ptr<Arena> arena, std::unique_ptr<EvictionPolicy> policy)
    : arena_(std::move(arena)), policy_(std::move(policy)), slab_extents_(arena_->num_slabs()) {}

Status DramTier::Put(std::span<const ExtentView> extents) {
  for (const ExtentView& extent : extents) QUIRE_RETURN_IF_ERROR(CheckShape(extent));
  std::vector<std::shared_ptr<Resident>> residents;
  residents.reserve(extents.size());
  {
    MutexLock lock(mutex_);
    for (const ExtentView& extent : extents) {
      StatusOr<std::shared_ptr<Resident>> resident = Allocate(extent);
      if (!resident.ok()) {
        refused_.Add(extents.size());
        return resident.status();
      }
      residents.push_back(*std::move(resident));
    }
  }
  for (size_t i = 0; i < extents.size(); ++i) {
    std::memcpy(residents[i]->bytes.data(), extents[i].bytes.data(), extents[i].bytes.size());
  }
  MutexLock lock(mutex_);
  for (size_t i = 0; i < extents.size(); ++i) Publish(extents[i].id, std::move(residents[i]));
  return OkStatus();
}

StatusOr<std::shared_ptr<DramTier::Resident>> DramTier::Allocate(const ExtentView& extent) {
  if (!arena_->Fits(extent.full_bytes)) {
    return ResourceExhausted("an extent of ", extent.full_bytes,
                             " bytes does not fit in a slab of the arena; raise dram_bytes");
  }
  std::optional<Arena::Slot> slot = arena_->Allocate(extent.full_bytes);
  while (!slot && MakeRoom(extent.full_bytes)) slot = arena_->Allocate(extent.full_bytes);
  if (!slot) {
    return WithRetryAfter(
        ResourceExhausted("the DRAM arena of ", arena_->reserved_bytes(),
                          " bytes is full and readers hold every extent that could make room; "
                          "retry later or raise dram_bytes"),
        kRetryWhenHeld);
  }
  return std::make_shared<Resident>(arena_, *slot, extent);
}

bool DramTier::MakeRoom(uint64_t bytes) {
  const auto yields = [&](const ExtentId& id) QUIRE_REQUIRES(mutex_) {
    const ResidentPtr& resident = *Find(id);
    if (arena_->SameClass(resident->full_bytes, bytes)) return resident.use_count() == 1;
    return CanEmptySlab(resident->slot.slab);
  };
  const std::optional<ExtentId> victim = policy_->Victim(yields);
  if (!victim) return false;
  const ResidentPtr resident = *Find(*victim);
  if (arena_->SameClass(resident->full_bytes, bytes)) {
    Evict(*victim);
  } else {
    EvictSlab(resident->slot.slab);
  }
  return true;
}

bool DramTier::CanEmptySlab(uint32_t slab) const {
  const std::vector<ExtentId>& slots = slab_extents_[slab];
  uint32_t evictable = 0;
  for (uint32_t i = 0; i < slots.size(); ++i) {
    const ResidentPtr* resident = Find(slots[i]);
    if (resident == nullptr || resident->use_count() > 1) continue;
    if ((*resident)->slot.slab == slab && (*resident)->slot.index == i) ++evictable;
  }
  return evictable == arena_->UsedSlots(slab);
}

void DramTier::EvictSlab(uint32_t slab) {
  for (const ExtentId& id : std::exchange(slab_extents_[slab], {})) {
    const ResidentPtr* resident = Find(id);
    if (resident == nullptr || (*resident)->slot.slab != slab) continue;
    Evict(id);
  }
}

void DramTier::Evict(const ExtentId& id) {
  policy_->Evict(id);
  Drop(id);
  evictions_.Add();
}

void DramTier::Publish(const ExtentId& id, ResidentPtr resident) {
  Drop(id);
  std::vector<ExtentId>& slots = slab_extents_[resident->slot.slab];
  if (slots.size() <= resident->slot.index) slots.resize(resident->slot.index + 1);
  slots[resident->slot.index] = id;
  policy_->Insert({.id = id, .bytes = resident->full_bytes});
  SegmentEntry& entry = index_[id.segment];
  if (entry.layers.size() <= id.layer) entry.layers.resize(id.layer + 1);
  entry.layers[id.layer] = std::move(resident);
  ++entry.held;
  extents_.Add();
}

void DramTier::Drop(const ExtentId& id) {
  if (Find(id) == nullptr) return;
  const auto it = index_.find(id.segment);
  it->second.layers[id.layer].reset();
  if (--it->second.held == 0) index_.erase(it);
  policy_->Remove(id);
  extents_.Sub(1);
}

const DramTier::ResidentPtr* DramTier::Find(const ExtentId& id) const {
  const auto it = index_.find(id.segment);
  if (it == index_.end() || id.layer >= it->second.layers.size()) return nullptr;
  const ResidentPtr& resident = it->second.layers[id.layer];
  return resident ? &resident : nullptr;
}

StatusOr<UnitBytes> DramTier::ReadUnit(const ExtentId& id, uint32_t unit) {
  ResidentPtr resident;
  {
    MutexLock lock(mutex_);
    if (const ResidentPtr* found = Find(id)) {
      resident = *found;
      policy_->Touch(id);
    }
  }
  if (!resident || unit >= resident->unit_crc32c.size()) {
    misses_.Add();
    return Status(StatusCode::kNotFound, "not in DRAM");
  }
  hits_.Add();
  const auto bytes = resident->bytes.subspan(unit * resident->unit_bytes, resident->unit_bytes);
  const uint32_t crc = resident->unit_crc32c[unit];
  return UnitBytes{.slice = {.bytes = bytes, .owner = std::move(resident)}, .crc32c = crc};
}

StatusOr<bool> DramTier::Has(const ExtentId& id) {
  MutexLock lock(mutex_);
  return Find(id) != nullptr;
}

bool DramTier::HasAny(const SegmentKey& segment) const {
  MutexLock lock(mutex_);
  return index_.contains(segment);
}

Status DramTier::Erase(const SegmentKey& segment) {
  MutexLock lock(mutex_);
  const auto it = index_.find(segment);
  if (it == index_.end()) return OkStatus();
  const auto layers = static_cast<uint32_t>(it->second.layers.size());
  for (uint32_t layer = 0; layer < layers; ++layer) Drop({segment, layer});
  return OkStatus();
}

void DramTier::VisitMetrics(MetricsVisitor& visit) const {
  visit.Gauge("dram_bytes_reserved", "The DRAM arena.", arena_->reserved_bytes());
  visit.Gauge("dram_bytes_used", "Bytes of the DRAM arena that hold extents.",
              arena_->used_bytes());
  visit.Gauge("dram_extents", "Extents held in DRAM.", extents_.Get());
  visit.Counter("dram_unit_hits", "Units handed out from DRAM.", hits_.Get());
  visit.Counter("dram_unit_misses", "Units that DRAM did not have.", misses_.Get());
  visit.Counter("dram_evictions", "Extents that left DRAM to make room.", evictions_.Get());
  visit.Counter("dram_refused", "Extents that found no room in DRAM.", refused_.Get());
}

}  // namespace quire::kvserver
