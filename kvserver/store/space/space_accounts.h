// SPDX-License-Identifier: Apache-2.0
//
// SpaceAccounts: payload bytes on SSD, in total under the store's limit and per tenant under its
// quota. Bytes count as encoded, before the entropy coder. Thread-safety: all methods may be called
// concurrently. Takes no other lock.
#ifndef QUIRE_KVSERVER_STORE_SPACE_SPACE_ACCOUNTS_H_
#define QUIRE_KVSERVER_STORE_SPACE_SPACE_ACCOUNTS_H_

#include <cstdint>
#include <string_view>

#include "common/base/observe/metrics.h"
#include "common/base/threads/mutex.h"
#include "kvserver/store/policy/quota_table.h"
#include "quire/status.h"

namespace quire::kvserver {

class SpaceAccounts {
 public:
  /// `limit_bytes` 0: no limit. `quotas` has the tenants with a quota.
  SpaceAccounts(uint64_t limit_bytes, const TenantBytes& quotas);

  /// Charges stored bytes, ignoring limits.
  void ChargeStored(std::string_view tenant, uint64_t bytes);
  /// Charges `bytes`. RESOURCE_EXHAUSTED naming the limit or the quota and the remedy, when they do
  /// not fit; nothing changes then.
  [[nodiscard]] Status Charge(std::string_view tenant, uint64_t bytes);
  /// True when `bytes` alone fit in the limit and the tenant's quota.
  bool CanFit(std::string_view tenant, uint64_t bytes) const;
  /// True when `bytes` exceed the tenant's quota.
  bool IsOverQuota(std::string_view tenant, uint64_t bytes) const;
  /// REQUIRES: as many are charged.
  void Release(std::string_view tenant, uint64_t bytes);

  /// Bytes charged to the tenant.
  uint64_t used_bytes(std::string_view tenant) const;

  /// ssd_bytes_used, ssd_bytes_limit.
  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  const uint64_t limit_bytes_;
  mutable Mutex mutex_;
  uint64_t used_bytes_ QUIRE_GUARDED_BY(mutex_) = 0;
  QuotaTable tenants_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_SPACE_SPACE_ACCOUNTS_H_
