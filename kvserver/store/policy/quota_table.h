// SPDX-License-Identifier: Apache-2.0
//
// QuotaTable: used bytes and quotas of each tenant and tier. Memory is bounded by the tenants.
// Thread-safety: none.
#ifndef QUIRE_KVSERVER_STORE_POLICY_QUOTA_TABLE_H_
#define QUIRE_KVSERVER_STORE_POLICY_QUOTA_TABLE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace quire::kvserver {

/// Bytes by tenant.
using TenantBytes = std::map<std::string, uint64_t, std::less<>>;

enum class TierName : uint8_t { kDram, kSsd };

class QuotaTable {
 public:
  static constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

  /// `default_bytes` is the quota of tenants without their own.
  explicit QuotaTable(uint64_t default_bytes = kUnlimited) : default_bytes_(default_bytes) {}

  /// Sets a tenant's quota. Used bytes stay charged. A use above the quota admits nothing until
  /// enough is released.
  void SetQuota(std::string_view tenant, TierName tier, uint64_t bytes);

  /// Charges `bytes`. RESOURCE_EXHAUSTED naming tenant, tier, use and quota when they do not fit;
  /// nothing changes then.
  [[nodiscard]] Status TryCharge(std::string_view tenant, TierName tier, uint64_t bytes);
  /// Charges stored bytes, over the quota or not.
  void ChargeStored(std::string_view tenant, TierName tier, uint64_t bytes);
  /// Releases charged bytes. REQUIRES: as many are charged.
  void Release(std::string_view tenant, TierName tier, uint64_t bytes);

  uint64_t used_bytes(std::string_view tenant, TierName tier) const;
  uint64_t quota_bytes(std::string_view tenant, TierName tier) const;

 private:
  struct Account {
    uint64_t used_bytes = 0;
    uint64_t quota_bytes = 0;
  };
  using Accounts = std::array<Account, 2>;  // [TierName]

  Accounts& Of(std::string_view tenant);
  const Account* Find(std::string_view tenant, TierName tier) const;

  const uint64_t default_bytes_;
  std::map<std::string, Accounts, std::less<>> tenants_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_POLICY_QUOTA_TABLE_H_
