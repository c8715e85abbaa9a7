// SPDX-License-Identifier: Apache-2.0
//
// SpaceAccounts: payload bytes on SSD, those of all tenants together under the store's limit and
// those of each under its quota. Bytes count as encoded, before the entropy coder.
// Thread-safety: all methods may be called concurrently. Takes no other lock.
#ifndef QUIRE_KVSERVER_STORE_SPACE_ACCOUNTS_H_
#define QUIRE_KVSERVER_STORE_SPACE_ACCOUNTS_H_

#include <cstdint>
#include <string_view>

#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "kvserver/store/policy/quota_table.h"
#include "quire/status.h"

namespace quire::kvserver {

class SpaceAccounts {
 public:
  /// `limit_bytes` 0: no limit. `quotas`: of the tenants that have one.
  SpaceAccounts(uint64_t limit_bytes, const TenantBytes& quotas);

  /// Charges what is stored already, limits or not.
  void ChargeStored(std::string_view tenant, uint64_t bytes);
  /// Charges `bytes`. RESOURCE_EXHAUSTED, naming the limit or the quota and the remedy, when they
  /// do not fit, and nothing changes.
  [[nodiscard]] Status Charge(std::string_view tenant, uint64_t bytes);
  /// Whether `bytes` are within the limit and the tenant's quota when nothing else is stored.
  bool CanFit(std::string_view tenant, uint64_t bytes) const;
  /// Whether it is the tenant's quota that `bytes` do not fit in.
  bool IsOverQuota(std::string_view tenant, uint64_t bytes) const;
  /// REQUIRES: as many are charged.
  void Release(std::string_view tenant, uint64_t bytes);

  /// ssd_bytes_used, ssd_bytes_limit.
  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  const uint64_t limit_bytes_;
  mutable Mutex mutex_;
  uint64_t used_bytes_ QUIRE_GUARDED_BY(mutex_) = 0;
  QuotaTable tenants_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_SPACE_ACCOUNTS_H_
