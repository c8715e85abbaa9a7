// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/cache/host_tier.h"

#include <iterator>
#include <utility>
#include <vector>

namespace quire::worker {

size_t HostTier::Hash::operator()(const HostUnitName& name) const {
  const uint64_t place = uint64_t{name.page} << 32 | uint64_t{name.layer} << 16 |
                         uint64_t{name.head} << 1 | static_cast<uint64_t>(name.part);
  uint64_t mixed = (SegmentKeyHash()(name.chain) ^ name.incarnation ^ name.context ^ place) *
                   0x9e3779b97f4a7c15u;
  mixed ^= mixed >> 32;
  return static_cast<size_t>(mixed * 0xd6e8feb86659fd93u);
}

HostTier::Stats HostTier::stats() const {
  MutexLock lock(mutex_);
  return stats_;
}

const HostUnit* HostTier::Use(const HostUnitName& name) {
  const auto found = units_.find(name);
  if (found == units_.end()) return nullptr;
  order_.splice(order_.end(), order_, found->second);
  return &found->second->unit;
}

void HostTier::Put(const HostUnitName& name, const Payload& unit, uint32_t crc32c,
                   const Validity& is_valid, UnitCodec codec) {
  const uint64_t bytes = unit.size_bytes();
  if (bytes > capacity_bytes_) return;
  {
    MutexLock lock(mutex_);
    if (Use(name) != nullptr) return;
  }
  // The copy is made outside the lock, and not for what is here already.
  std::vector<std::byte> buffer(bytes);
  unit.CopyTo(buffer.data());
  if (is_valid && !is_valid()) return;
  Payload copy;
  copy.Append(std::move(buffer));
  Order dropped;  // Freed after the lock.
  MutexLock lock(mutex_);
  if (Use(name) != nullptr) return;
  while (stats_.bytes + bytes > capacity_bytes_) {
    stats_.bytes -= order_.front().unit.bytes.bytes.size();
    ++stats_.evictions;
    units_.erase(order_.front().name);
    dropped.splice(dropped.end(), order_, order_.begin());
  }
  order_.push_back({name, {copy.slices().front(), crc32c, codec}});
  units_.emplace(name, std::prev(order_.end()));
  stats_.bytes += bytes;
  stats_.units = units_.size();
}

std::optional<HostUnit> HostTier::Get(const HostUnitName& name) {
  MutexLock lock(mutex_);
  const HostUnit* const unit = Use(name);
  ++(unit != nullptr ? stats_.hits : stats_.misses);
  return unit != nullptr ? std::optional(*unit) : std::nullopt;
}

void HostTier::Touch(const HostUnitName& name) {
  MutexLock lock(mutex_);
  (void)Use(name);
}

void HostTier::DropDamaged(const HostUnitName& name) {
  Order dropped;  // Freed after the lock.
  MutexLock lock(mutex_);
  const auto found = units_.find(name);
  if (found == units_.end()) return;
  stats_.bytes -= found->second->unit.bytes.bytes.size();
  ++stats_.damaged;
  dropped.splice(dropped.end(), order_, found->second);
  units_.erase(found);
  stats_.units = units_.size();
}

HostUnitName HostPages::NameOf(uint32_t layer, uint32_t head, uint32_t page) const {
  HostUnitName name{.page = page, .layer = layer, .head = head, .part = part_};
  if (page < document_.num_pages) {
    name.chain = document_.tip;
    name.incarnation = document_.incarnation;
  } else {
    name.context = context_;
  }
  return name;
}

std::optional<HostPages::Unit> HostPages::Get(uint32_t layer, uint32_t head, uint32_t page) const {
  auto unit = tier_->Get(NameOf(layer, head, page));
  if (!unit) return std::nullopt;
  return Unit{.head = head,
              .page = page,
              .bytes = std::move(unit->bytes),
              .crc32c = unit->crc32c,
              .codec = unit->codec};
}

}  // namespace quire::worker
