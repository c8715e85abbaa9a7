// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/space/space_accounts.h"

namespace quire::kvserver {

SpaceAccounts::SpaceAccounts(uint64_t limit_bytes, const TenantBytes& quotas)
    : limit_bytes_(limit_bytes) {
  for (const auto& [tenant, bytes] : quotas) tenants_.SetQuota(tenant, TierName::kSsd, bytes);
}

void SpaceAccounts::ChargeStored(std::string_view tenant, uint64_t bytes) {
  MutexLock lock(mutex_);
  used_bytes_ += bytes;
  tenants_.ChargeStored(tenant, TierName::kSsd, bytes);
}

Status SpaceAccounts::Charge(std::string_view tenant, uint64_t bytes) {
  MutexLock lock(mutex_);
  if (limit_bytes_ != 0 && (used_bytes_ > limit_bytes_ || bytes > limit_bytes_ - used_bytes_)) {
    return ResourceExhausted(
        "the store holds ", used_bytes_, " of the ", limit_bytes_,
        " bytes of payload that ssd_bytes leaves room for, and a segment needs ", bytes,
        "; delete documents or raise ssd_bytes, then retry");
  }
  QUIRE_RETURN_IF_ERROR(tenants_.TryCharge(tenant, TierName::kSsd, bytes));
  used_bytes_ += bytes;
  return OkStatus();
}

bool SpaceAccounts::CanFit(std::string_view tenant, uint64_t bytes) const {
  MutexLock lock(mutex_);
  return (limit_bytes_ == 0 || bytes <= limit_bytes_) &&
         bytes <= tenants_.quota_bytes(tenant, TierName::kSsd);
}

bool SpaceAccounts::IsOverQuota(std::string_view tenant, uint64_t bytes) const {
  MutexLock lock(mutex_);
  const uint64_t used = tenants_.used_bytes(tenant, TierName::kSsd);
  const uint64_t quota = tenants_.quota_bytes(tenant, TierName::kSsd);
  return used > quota || bytes > quota - used;
}

void SpaceAccounts::Release(std::string_view tenant, uint64_t bytes) {
  MutexLock lock(mutex_);
  used_bytes_ -= bytes;
  tenants_.Release(tenant, TierName::kSsd, bytes);
}

uint64_t SpaceAccounts::used_bytes(std::string_view tenant) const {
  MutexLock lock(mutex_);
  return tenants_.used_bytes(tenant, TierName::kSsd);
}

void SpaceAccounts::VisitMetrics(MetricsVisitor& visit) const {
  MutexLock lock(mutex_);
  visit.Gauge("ssd_bytes_used", "Payload stored on SSD.", used_bytes_);
  visit.Gauge("ssd_bytes_limit", "Payload that the limit of the disk leaves room for.",
              limit_bytes_);
}

}  // namespace quire::kvserver
