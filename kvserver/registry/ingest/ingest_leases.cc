// SPDX-License-Identifier: Apache-2.0
#include "kvserver/registry/ingest/ingest_leases.h"

#include <algorithm>
#include <random>
#include <utility>

namespace quire::kvserver {

uint64_t IngestLeases::NewId() const {
  std::random_device random;
  uint64_t id = 0;
  while (id == 0) id = uint64_t{random()} << 32 | random();
  return id;
}

bool IngestLeases::HasRoom(std::string_view tenant) const {
  MutexLock lock(mutex_);
  const auto count = std::ranges::count_if(
      leases_, [&](const auto& lease) { return lease.second.document.tenant == tenant; });
  return static_cast<size_t>(count) < kMaxPerTenant;
}

void IngestLeases::Add(uint64_t id, TenantDocument document) {
  MutexLock lock(mutex_);
  leases_[id] = {std::move(document), clock_->Now() + lease_};
}

std::optional<DocumentName> IngestLeases::Find(std::string_view tenant, uint64_t id) const {
  MutexLock lock(mutex_);
  const auto lease = leases_.find(id);
  if (lease == leases_.end() || lease->second.document.tenant != tenant) return std::nullopt;
  return lease->second.document.name;
}

std::vector<uint64_t> IngestLeases::Renew(std::string_view tenant, std::span<const uint64_t> ids) {
  std::vector<uint64_t> gone;
  MutexLock lock(mutex_);
  for (const uint64_t id : ids) {
    const auto lease = leases_.find(id);
    if (lease == leases_.end() || lease->second.document.tenant != tenant) {
      gone.push_back(id);
    } else {
      lease->second.end = clock_->Now() + lease_;
    }
  }
  return gone;
}

void IngestLeases::Remove(std::string_view tenant, const DocumentName& name) {
  MutexLock lock(mutex_);
  std::erase_if(leases_, [&](const auto& lease) {
    const TenantDocument& document = lease.second.document;
    return document.tenant == tenant && document.name == name;
  });
}

std::vector<TenantDocument> IngestLeases::Abandoned() const {
  std::vector<TenantDocument> abandoned;
  const TimePoint now = clock_->Now();
  MutexLock lock(mutex_);
  for (const auto& [id, lease] : leases_) {
    if (lease.end <= now) abandoned.push_back(lease.document);
  }
  return abandoned;
}

size_t IngestLeases::size() const {
  MutexLock lock(mutex_);
  return leases_.size();
}

}  // namespace quire::kvserver
