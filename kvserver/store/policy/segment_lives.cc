// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/policy/segment_lives.h"

#include <algorithm>
#include <utility>

namespace quire::kvserver {
namespace {

ExtentId IdOf(const SegmentKey& key) { return {.segment = key, .layer = 0}; }

}  // namespace

SegmentLives::SegmentLives(std::unique_ptr<EvictionPolicy> eviction, HintedEviction::Limits raised)
    : eviction_(std::move(eviction), std::move(raised)) {}

SegmentLives::Entry* SegmentLives::Find(const SegmentKey& key) {
  const auto it = entries_.find(key);
  return it != entries_.end() ? &it->second : nullptr;
}

const SegmentLives::Entry* SegmentLives::Find(const SegmentKey& key) const {
  const auto it = entries_.find(key);
  return it != entries_.end() ? &it->second : nullptr;
}

// --- Stored segments.

void SegmentLives::Add(const StoredSegment& segment, TimePoint now) {
  const SegmentKey& key = segment.key;
  uint64_t holds = 0, written_as = segment.incarnation;
  bool marked = segment.is_private;
  if (const Entry* const before = Find(key)) {
    holds = before->holds;
    if (before->incarnation == segment.incarnation) {
      marked |= before->marked;
      written_as = before->written_as;
    } else {
      Rewrite(key, segment.incarnation);
    }
    Remove(key);
  }
  const auto awaited = awaited_.extract(key);
  const uint64_t names = awaited.empty() ? 0 : awaited.mapped();
  Entry& entry = entries_[key];
  entry = {.tenant = std::string(segment.tenant),
           .parent = segment.parent,
           .bytes = segment.bytes,
           .incarnation = segment.incarnation,
           .written_as = written_as,
           .names = names,
           .holds = holds,
           .seconds_per_token = segment.seconds_per_token,
           .is_private = segment.is_private,
           .listed = segment.listed,
           .marked = marked,
           .last_use = now};
  last_incarnation_ = std::max(last_incarnation_, segment.incarnation);
  if (holds > 0) ++num_held_;
  if (marked) marked_.insert(key);
  if (segment.parent != kRootKey) children_[segment.parent].insert(key);
  if (names == 0) EnterCache(key, entry, now);
  if (const auto children = children_.find(key); children != children_.end()) {
    for (const SegmentKey& child : children->second) detached_.erase(child);
  }
}

void SegmentLives::Remove(const SegmentKey& key) {
  const auto it = entries_.find(key);
  if (it == entries_.end()) return;
  Entry& entry = it->second;
  if (entry.names == 0) {
    LeaveCache(key, entry);
  } else {
    awaited_[key] = entry.names;
  }
  if (entry.holds > 0) --num_held_;
  marked_.erase(key);
  if (const auto siblings = children_.find(entry.parent); siblings != children_.end()) {
    siblings->second.erase(key);
    if (siblings->second.empty()) children_.erase(siblings);
  }
  entries_.erase(it);
  if (const auto children = children_.find(key); children != children_.end()) {
    for (const SegmentKey& child : children->second) {
      if (Find(child)->names == 0) detached_.insert(child);
    }
  }
}

uint64_t SegmentLives::NextIncarnation(int64_t unix_micros) {
  const uint64_t now = unix_micros > 0 ? static_cast<uint64_t>(unix_micros) : 0;
  last_incarnation_ = std::max(last_incarnation_ + 1, now);
  return last_incarnation_;
}

void SegmentLives::EnterCache(const SegmentKey& key, Entry& entry, TimePoint now) {
  entry.place = by_use_.insert(by_use_.end(), key);
  entry.last_use = now;
  cached_bytes_ += entry.bytes;
  eviction_.Insert(ExtentOf(key, entry));
  if (IsDetached(entry)) detached_.insert(key);
}

NewExtent SegmentLives::ExtentOf(const SegmentKey& key, const Entry& entry) {
  return {.id = IdOf(key),
          .bytes = std::max<uint64_t>(entry.bytes, 1),
          .tenant = entry.tenant,
          .parent = entry.parent,
          .seconds_per_token = entry.seconds_per_token};
}

void SegmentLives::SetStanding(const StandingChange& change) {
  const Entry* const entry = Find(change.segment);
  const bool tracked = entry != nullptr && entry->names == 0;
  const NewExtent extent = tracked ? ExtentOf(change.segment, *entry) : NewExtent();
  eviction_.SetStanding(change.segment, change.standing, {&extent, tracked ? 1u : 0u});
}

void SegmentLives::LeaveCache(const SegmentKey& key, Entry& entry) {
  by_use_.erase(entry.place);
  cached_bytes_ -= entry.bytes;
  entry.evicted ? eviction_.Evict(IdOf(key)) : eviction_.Remove(IdOf(key));
  detached_.erase(key);
}

// --- Users of segments.

void SegmentLives::Touch(const SegmentKey& key, Entry& entry, TimePoint now) {
  entry.last_use = now;
  if (entry.names > 0) return;
  by_use_.splice(by_use_.end(), by_use_, entry.place);
  eviction_.Touch(IdOf(key));
}

bool SegmentLives::Hold(const SegmentKey& key, TimePoint now) {
  Entry* const entry = Find(key);
  if (entry == nullptr || entry->leaving) return false;
  if (entry->holds++ == 0) ++num_held_;
  Touch(key, *entry, now);
  return true;
}

bool SegmentLives::Release(const SegmentKey& key, TimePoint now) {
  Entry* const entry = Find(key);
  if (entry == nullptr || entry->holds == 0) return false;
  if (--entry->holds == 0) --num_held_;
  // A reader that ends after its conversation was released is no new use.
  if (!eviction_.IsReleased(IdOf(key))) Touch(key, *entry, now);
  return entry->marked && IsFree(*entry);
}

bool SegmentLives::Name(const SegmentKey& key) {
  Entry* const entry = Find(key);
  if (entry == nullptr || entry->leaving) return false;
  Unmark(key);
  if (entry->names == 0) LeaveCache(key, *entry);
  ++entry->names;
  return true;
}

void SegmentLives::Unname(const SegmentKey& key, TimePoint now) {
  if (const auto awaited = awaited_.find(key); awaited != awaited_.end()) {
    if (--awaited->second == 0) awaited_.erase(awaited);
    return;
  }
  Entry* const entry = Find(key);
  if (entry == nullptr || entry->names == 0) return;
  if (--entry->names == 0) EnterCache(key, *entry, now);
}

void SegmentLives::RestoreNames(const Names& names, TimePoint now) {
  awaited_ = names;
  for (auto& [key, entry] : entries_) {
    const auto it = names.find(key);
    const uint64_t count = it != names.end() ? it->second : 0;
    awaited_.erase(key);
    if (entry.names == 0 && count > 0) LeaveCache(key, entry);
    const bool unnamed = entry.names > 0 && count == 0;
    entry.names = count;
    if (unnamed) EnterCache(key, entry, now);
  }
}

std::optional<uint64_t> SegmentLives::Mark(const SegmentKey& key) {
  Entry* const entry = Find(key);
  if (entry == nullptr) return std::nullopt;
  entry->marked = true;
  marked_.insert(key);
  return entry->incarnation;
}

void SegmentLives::Unmark(const SegmentKey& key) {
  Entry* const entry = Find(key);
  if (entry == nullptr) return;
  entry->marked = false;
  marked_.erase(key);
}

void SegmentLives::Rewrite(const SegmentKey& key, uint64_t incarnation) {
  Entry* const entry = Find(key);
  // A put adds its segment without an incarnation before it is stored.
  if (entry == nullptr || entry->written_as == 0 || entry->written_as == incarnation) return;
  entry->written_as = incarnation;
  ++num_replaced_;
}

void SegmentLives::Renew(const SegmentKey& key, uint64_t incarnation) {
  Entry* const entry = Find(key);
  if (entry == nullptr) return;
  Unmark(key);
  entry->incarnation = incarnation;
  last_incarnation_ = std::max(last_incarnation_, incarnation);
}

std::optional<std::vector<SegmentKey>> SegmentLives::MarkedOfChain(const SegmentKey& tip) const {
  std::vector<SegmentKey> marked;
  for (SegmentKey key = tip; key != kRootKey;) {
    const Entry* const entry = Find(key);
    if (entry == nullptr || entry->leaving) return std::nullopt;
    if (entry->marked && !entry->is_private) marked.push_back(key);
    key = entry->parent;
  }
  return marked;
}

bool SegmentLives::IsMarked(const SegmentKey& key) const {
  const Entry* const entry = Find(key);
  return entry != nullptr && entry->marked;
}

uint64_t SegmentLives::CountNames(const SegmentKey& key) const {
  const Entry* const entry = Find(key);
  return entry == nullptr ? 0 : entry->names;
}

std::optional<uint64_t> SegmentLives::IncarnationOf(const SegmentKey& key) const {
  const Entry* const entry = Find(key);
  if (entry == nullptr) return std::nullopt;
  return entry->incarnation;
}

std::optional<uint64_t> SegmentLives::WrittenAs(const SegmentKey& key) const {
  const Entry* const entry = Find(key);
  if (entry == nullptr) return std::nullopt;
  return entry->written_as;
}

std::string SegmentLives::TenantOf(const SegmentKey& key) const {
  const Entry* const entry = Find(key);
  return entry != nullptr ? entry->tenant : std::string();
}

bool SegmentLives::MayBelongTo(std::string_view tenant, const SegmentKey& key) const {
  const Entry* const entry = Find(key);
  return entry == nullptr || entry->tenant.empty() || entry->tenant == tenant;
}

bool SegmentLives::IsListed(const SegmentKey& key) const {
  const Entry* const entry = Find(key);
  return entry != nullptr && entry->listed && entry->incarnation != 0;
}

std::vector<ListedSegment> SegmentLives::List(std::string_view tenant, const SegmentKey& after,
                                              size_t limit) const {
  std::vector<ListedSegment> listed;
  for (const auto& [key, entry] : entries_) {
    if (entry.tenant != tenant || !entry.listed || entry.incarnation == 0 || !(after < key))
      continue;
    listed.push_back({.segment = key, .parent = entry.parent, .bytes = entry.bytes});
  }
  const auto end = listed.begin() + static_cast<std::ptrdiff_t>(std::min(limit, listed.size()));
  std::ranges::partial_sort(listed, end, {}, &ListedSegment::segment);
  listed.erase(end, listed.end());
  return listed;
}

uint64_t SegmentLives::BytesOf(const SegmentKey& key) const {
  const Entry* const entry = Find(key);
  return entry != nullptr ? entry->bytes : 0;
}

// --- Removal.

std::optional<SegmentKey> SegmentLives::Victim(const Wanted& wanted) {
  const auto victim = eviction_.Victim([&](const ExtentId& id) {
    const Entry& entry = *Find(id.segment);
    return IsFree(entry) && !entry.leaving && !IsContinued(id.segment) &&
           wanted(id.segment, entry.tenant);
  });
  if (!victim) return std::nullopt;
  return victim->segment;
}

bool SegmentLives::IsContinuedSince(const SegmentKey& key, TimePoint since) const {
  const auto children = children_.find(key);
  if (children == children_.end()) return false;
  return std::ranges::any_of(children->second, [&](const SegmentKey& child) {
    const Entry& entry = *Find(child);
    return !IsFree(entry) || entry.last_use >= since;
  });
}

std::vector<SegmentKey> SegmentLives::UnusedSince(TimePoint before, size_t limit) const {
  std::vector<SegmentKey> unused;
  for (const SegmentKey& key : by_use_) {
    const Entry& entry = *Find(key);
    if (unused.size() >= limit || entry.last_use >= before) break;
    if (IsFree(entry) && !entry.leaving && !IsContinuedSince(key, before)) unused.push_back(key);
  }
  return unused;
}

std::vector<SegmentLives::Use> SegmentLives::UsedSince(TimePoint since) const {
  std::vector<Use> used;
  for (auto key = by_use_.rbegin(); key != by_use_.rend(); ++key) {
    const Entry& entry = *Find(*key);
    if (entry.last_use < since) break;
    // An entry without an incarnation is about to be put.
    if (entry.is_private || entry.incarnation == 0) continue;
    used.push_back({*key, entry.last_use, entry.incarnation});
  }
  std::ranges::reverse(used);
  return used;
}

std::vector<SegmentKey> SegmentLives::FreeOnes(const Keys& keys, size_t limit) const {
  std::vector<SegmentKey> free;
  for (const SegmentKey& key : keys) {
    if (free.size() >= limit) break;
    const Entry& entry = *Find(key);
    if (IsFree(entry) && !entry.leaving) free.push_back(key);
  }
  return free;
}

bool SegmentLives::BeginRemoval(const SegmentKey& key, RemovalReason why, TimePoint unused_since) {
  Entry* const entry = Find(key);
  if (entry == nullptr || entry->leaving || !IsFree(*entry)) return false;
  if (why == RemovalReason::kMarked && !entry->marked) return false;
  if (why == RemovalReason::kDetached && !IsDetached(*entry)) return false;
  if (why == RemovalReason::kEvicted && IsContinued(key)) return false;
  if (why == RemovalReason::kExpired && (IsContinued(key) || entry->last_use >= unused_since)) {
    return false;
  }
  entry->leaving = true;
  entry->evicted = why == RemovalReason::kEvicted;
  return true;
}

void SegmentLives::CancelRemoval(const SegmentKey& key) {
  Entry* const entry = Find(key);
  if (entry != nullptr) entry->leaving = entry->evicted = false;
}

}  // namespace quire::kvserver
