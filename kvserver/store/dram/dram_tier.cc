// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/dram/dram_tier.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/retry_hint.h"

namespace quire::kvserver {
namespace {

constexpr Duration kRetryWhenHeld = std::chrono::milliseconds(20);

/// Counts an operation in flight while it lives.
class UnderWay {
 public:
  explicit UnderWay(std::atomic<uint32_t>& count) : count_(count) {
    count_.fetch_add(1, std::memory_order_relaxed);
  }
  ~UnderWay() { count_.fetch_sub(1, std::memory_order_relaxed); }
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;

 private:
  std::atomic<uint32_t>& count_;
};

uint64_t ShareOf(uint64_t bytes, double share) {
  return std::min(bytes, static_cast<uint64_t>(static_cast<double>(bytes) * share));
}

}  // namespace

StatusOr<std::unique_ptr<DramTier>> DramTier::Open(const Options& options,
                                                   std::unique_ptr<EvictionPolicy> policy) {
  QUIRE_ASSIGN_OR_RETURN(
      const Watermarks watermarks,
      Watermarks::Make(options.memory.bytes, options.low_watermark, options.high_watermark));
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<Arena> arena, Arena::Reserve(options.memory));
  return std::unique_ptr<DramTier>(
      new DramTier(options, std::move(arena), watermarks, std::move(policy)));
}

DramTier::DramTier(const Options& options, std::unique_ptr<Arena> arena,
                   const Watermarks& watermarks, std::unique_ptr<EvictionPolicy> policy)
    : options_(options),
      arena_(std::move(arena)),
      policy_(std::move(policy), {.tier_bytes = options.memory.bytes,
                                  .quotas = options.tenant_quotas,
                                  .default_quota = options.tenant_quota_bytes,
                                  .share = options.raised_share}),
      slab_extents_(arena_->num_slabs()),
      pins_(ShareOf(options.memory.bytes, options.pinned_share)),
      quotas_(options.tenant_quota_bytes),
      watermarks_(watermarks) {
  MutexLock lock(mutex_);
  for (const auto& [tenant, bytes] : options.tenant_quotas) {
    quotas_.SetQuota(tenant, TierName::kDram, bytes);
  }
}

DramTier::~DramTier() = default;

// --- Reads.

size_t DramTier::ReadUnits(std::string_view tenant, std::span<const UnitAddress> units,
                           std::span<UnitBytes> out) {
  const size_t handed_out = index_.Read(tenant, units, out);
  hits_.Add(handed_out);
  misses_.Add(units.size() - handed_out);
  // One reader passes the notes on, unless a put is in flight, which does. No thread waits for
  // long: neither other readers for that one, nor that one for an evicting put.
  if (index_.notes_full() && puts_under_way_.load(std::memory_order_relaxed) == 0 &&
      !telling_policy_.exchange(true, std::memory_order_acquire)) {
    {
      MutexLock lock(mutex_);
      TellPolicy();
    }
    telling_policy_.store(false, std::memory_order_release);
  }
  return handed_out;
}

StatusOr<UnitBytes> DramTier::ReadUnit(const ExtentId& id, uint32_t unit) {
  std::optional<UnitBytes> read = index_.ReadUnit(id, unit);
  (read ? hits_ : misses_).Add();
  if (!read) return Status(StatusCode::kNotFound, "not in DRAM");
  return *std::move(read);
}

void DramTier::TellPolicy() {
  index_.TakeNotes([this](const ExtentId& id) QUIRE_REQUIRES(mutex_) { policy_.Touch(id); });
}

// --- Puts and erasures.

Status DramTier::Put(std::span<const ExtentView> extents) {
  for (const ExtentView& extent : extents) QUIRE_RETURN_IF_ERROR(CheckShape(extent));
  Room room = Reserve(extents);
  if (!room.refusal().ok()) {
    refused_.Add(extents.size());
    return room.refusal();
  }
  for (size_t i = 0; i < extents.size(); ++i) {
    std::memcpy(room.bytes(i).data(), extents[i].bytes.data(), extents[i].bytes.size());
  }
  Publish(extents, std::move(room));
  return OkStatus();
}

DramTier::Room DramTier::Reserve(std::span<const ExtentView> extents) {
  const UnderWay under_way(puts_under_way_);
  Room room(this);
  room.residents_.reserve(extents.size());
  {
    MutexLock lock(mutex_);
    TellPolicy();
    for (const ExtentView& extent : extents) {
      StatusOr<ResidentToBe> resident = Allocate(extent);
      if (!resident.ok()) {
        room.refusal_ = resident.status();
        break;
      }
      room.residents_.push_back(*std::move(resident));
    }
  }
  for (const ResidentToBe& resident : room.residents_) arena_->Prepare(resident->slot());
  return room;
}

void DramTier::Publish(std::span<const ExtentView> extents, Room room) {
  const UnderWay under_way(puts_under_way_);
  room.tier_ = nullptr;
  for (size_t i = 0; i < extents.size(); ++i) {
    room.residents_[i]->SetChecksums(extents[i].unit_crc32c);
  }
  MutexLock lock(mutex_);
  for (size_t i = 0; i < extents.size(); ++i) {
    Publish(extents[i], std::move(room.residents_[i]));
  }
  TellPolicy();
  EvictToLowMark();
}

void DramTier::Release(std::span<const ResidentToBe> residents) {
  MutexLock lock(mutex_);
  for (const ResidentToBe& resident : residents) {
    quotas_.Release(resident->tenant(), TierName::kDram, resident->slot_bytes());
  }
}

StatusOr<DramTier::ResidentToBe> DramTier::Allocate(const ExtentView& extent) {
  if (!arena_->Fits(extent.full_bytes)) {
    return ResourceExhausted("an extent of ", extent.full_bytes,
                             " bytes does not fit in a slab of the arena; raise dram_bytes");
  }
  const uint64_t slot_bytes = Arena::SlotBytes(extent.full_bytes);
  QUIRE_RETURN_IF_ERROR(Charge(extent.tenant, slot_bytes));
  std::optional<Arena::Slot> slot = arena_->Allocate(slot_bytes);
  while (!slot && MakeRoom(slot_bytes)) slot = arena_->Allocate(slot_bytes);
  if (slot) return std::make_shared<Resident>(arena_, *slot, extent, Interned(extent.tenant));
  quotas_.Release(extent.tenant, TierName::kDram, slot_bytes);
  return WithRetryAfter(
      ResourceExhausted("the DRAM arena of ", arena_->reserved_bytes(),
                        " bytes is full, and readers or pins hold every extent that could "
                        "make room; retry later or raise dram_bytes"),
      kRetryWhenHeld);
}

std::string_view DramTier::Interned(std::string_view tenant) {
  const auto it = tenants_.find(tenant);
  return it != tenants_.end() ? *it : *tenants_.emplace(tenant).first;
}

Status DramTier::Charge(std::string_view tenant, uint64_t slot_bytes) {
  const uint64_t quota = quotas_.quota_bytes(tenant, TierName::kDram);
  const auto own = [&](const ExtentId& id)
                       QUIRE_REQUIRES(mutex_) { return (*index_.Peek(id))->tenant() == tenant; };
  const auto over = [&]() QUIRE_REQUIRES(mutex_) {
    const uint64_t used = quotas_.used_bytes(tenant, TierName::kDram);
    return used > quota || slot_bytes > quota - used;
  };
  while (slot_bytes <= quota && over() && EvictOne(own)) continue;
  const Status charged = quotas_.TryCharge(tenant, TierName::kDram, slot_bytes);
  if (charged.ok()) return charged;
  quota_refused_.Add();
  return WithRetryAfter(charged, kRetryWhenHeld);
}

void DramTier::Publish(const ExtentView& extent, ResidentToBe resident) {
  Drop(extent.id);
  std::vector<ExtentId>& slots = slab_extents_[resident->slot().slab];
  if (slots.size() <= resident->slot().index) slots.resize(resident->slot().index + 1);
  slots[resident->slot().index] = extent.id;
  policy_.Insert({.id = extent.id,
                  .bytes = resident->slot_bytes(),
                  .tenant = resident->tenant(),
                  .parent = extent.parent,
                  .seconds_per_token = extent.seconds_per_token});
  extents_.Add();
  payload_bytes_.Add(resident->size_bytes());
  const ResidentPtr published = std::move(resident);
  if (index_.Insert(extent.id, published)) {
    Tell(SegmentEventKind::kEnteredDram, extent.id.segment, *published);
  }
}

void DramTier::Tell(SegmentEventKind kind, const SegmentKey& segment, const Resident& resident) {
  if (options_.events == nullptr || !resident.listed()) return;
  options_.events->Add(resident.tenant(), {.kind = kind, .segment = segment});
}

void DramTier::Erase(const SegmentKey& segment) {
  MutexLock lock(mutex_);
  for (const uint32_t layer : index_.LayersOf(segment)) Drop({segment, layer});
  pins_.Forget(segment);
}

void DramTier::DropExtents(const SegmentKey& segment) {
  MutexLock lock(mutex_);
  for (const uint32_t layer : index_.LayersOf(segment)) Drop({segment, layer});
}

bool DramTier::EraseExtent(const ExtentId& id, const ResidentPtr& resident) {
  MutexLock lock(mutex_);
  const ResidentPtr* const held = index_.Peek(id);
  if (held == nullptr || *held != resident) return false;
  Drop(id);
  return true;
}

void DramTier::Drop(const ExtentId& id) {
  const ResidentPtr resident = index_.Remove(id);
  if (resident == nullptr) return;
  policy_.Remove(id);
  quotas_.Release(resident->tenant(), TierName::kDram, resident->slot_bytes());
  extents_.Sub(1);
  payload_bytes_.Sub(resident->size_bytes());
  if (!index_.HasAny(id.segment)) Tell(SegmentEventKind::kLeftDram, id.segment, *resident);
}

// --- Eviction.

bool DramTier::MayLeave(const ExtentId& id) const {
  return index_.Peek(id)->use_count() == 1 && !pins_.IsPinned(id.segment);
}

bool DramTier::EvictOne(const EvictionPolicy::Evictable& wanted) {
  const auto victim = policy_.Victim(
      [&](const ExtentId& id) QUIRE_REQUIRES(mutex_) { return MayLeave(id) && wanted(id); });
  if (victim) Evict(*victim);
  return victim.has_value();
}

bool DramTier::MakeRoom(uint64_t bytes) {
  const auto yields = [&](const ExtentId& id) QUIRE_REQUIRES(mutex_) {
    const Resident& resident = **index_.Peek(id);
    if (resident.slot_bytes() == bytes) return MayLeave(id);
    return CanEmptySlab(resident.slot().slab);
  };
  const std::optional<ExtentId> victim = policy_.Victim(yields);
  if (!victim) return false;
  const Resident& resident = **index_.Peek(*victim);
  if (resident.slot_bytes() == bytes) {
    Evict(*victim);
  } else {
    EvictSlab(resident.slot().slab);
  }
  return true;
}

void DramTier::EvictToLowMark() {
  const auto any = [](const ExtentId&) { return true; };
  while (watermarks_.BytesToEvict(arena_->used_bytes()) > 0 && EvictOne(any)) continue;
}

bool DramTier::CanEmptySlab(uint32_t slab) const {
  const std::vector<ExtentId>& slots = slab_extents_[slab];
  uint32_t evictable = 0;
  for (uint32_t i = 0; i < slots.size(); ++i) {
    const ResidentPtr* const resident = index_.Peek(slots[i]);
    if (resident == nullptr || !MayLeave(slots[i])) continue;
    if ((*resident)->slot().slab == slab && (*resident)->slot().index == i) ++evictable;
  }
  return evictable == arena_->UsedSlots(slab);
}

void DramTier::EvictSlab(uint32_t slab) {
  for (const ExtentId& id : std::exchange(slab_extents_[slab], {})) {
    const ResidentPtr* const resident = index_.Peek(id);
    if (resident != nullptr && (*resident)->slot().slab == slab) Evict(id);
  }
}

void DramTier::Evict(const ExtentId& id) {
  policy_.Evict(id);
  Drop(id);
  evictions_.Add();
}

// --- Hints and pins.

void DramTier::SetStandings(std::span<const StandingChange> changes) {
  MutexLock lock(mutex_);
  TellPolicy();  // Reads before a release are no uses after it.
  std::vector<NewExtent> extents;
  for (const StandingChange& change : changes) {
    extents.clear();
    for (const uint32_t layer : index_.LayersOf(change.segment)) {
      const Resident& resident = **index_.Peek({change.segment, layer});
      extents.push_back({.id = {change.segment, layer},
                         .bytes = resident.slot_bytes(),
                         .tenant = resident.tenant()});
    }
    policy_.SetStanding(change.segment, change.standing, extents);
  }
}

Status DramTier::Pin(const SegmentKey& segment, uint64_t slot_bytes) {
  MutexLock lock(mutex_);
  return pins_.Pin(segment, slot_bytes);
}

Status DramTier::Unpin(const SegmentKey& segment) {
  MutexLock lock(mutex_);
  return pins_.Unpin(segment);
}

uint64_t DramTier::used_bytes(std::string_view tenant) const {
  MutexLock lock(mutex_);
  return quotas_.used_bytes(tenant, TierName::kDram);
}

void DramTier::VisitMetrics(MetricsVisitor& visit) const {
  visit.Gauge("dram_bytes_reserved", "The DRAM arena.", arena_->reserved_bytes());
  visit.Gauge("dram_bytes_used", "Bytes of the DRAM arena that hold extents.",
              arena_->used_bytes());
  visit.Gauge("dram_bytes_payload", "Bytes of the extents that are held.", payload_bytes_.Get());
  for (const Arena::ClassUse& use : arena_->Classes()) {
    const std::string slot_bytes = std::to_string(use.slot_bytes);
    visit.Gauge("dram_slabs", "Slabs of the DRAM arena, by the bytes of their slots.", use.slabs,
                {{"slot_bytes", slot_bytes}});
    visit.Gauge("dram_slots_used", "Slots that hold extents, by their bytes.", use.slots_used,
                {{"slot_bytes", slot_bytes}});
  }
  visit.Gauge("dram_extents", "Extents held in DRAM.", extents_.Get());
  visit.Counter("dram_unit_hits", "Units handed out from DRAM.", hits_.Get());
  visit.Counter("dram_unit_misses", "Units that DRAM did not have.", misses_.Get());
  visit.Counter("dram_evictions", "Extents that left DRAM to make room.", evictions_.Get());
  visit.Counter("dram_refused", "Extents that found no room in DRAM.", refused_.Get());
  visit.Counter("dram_quota_refused", "Extents refused because their tenant was at its quota.",
                quota_refused_.Get());
  visit.Counter("dram_notes_dropped", "Reads that the eviction policy was not told of.",
                index_.notes_dropped());
  MutexLock lock(mutex_);
  visit.Gauge("dram_bytes_pinned", "Bytes of slots that pins keep.", pins_.pinned_bytes());
  visit.Gauge("dram_bytes_raised", "Bytes of slots that leave last because of hints.",
              policy_.raised_bytes());
  visit.Counter("dram_not_raised", "Extents in DRAM that hints would raise beyond their share.",
                policy_.not_raised());
}

}  // namespace quire::kvserver
