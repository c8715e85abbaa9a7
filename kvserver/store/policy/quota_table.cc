// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/policy/quota_table.h"

namespace quire::kvserver {
namespace {

size_t Index(TierName tier) { return static_cast<size_t>(tier); }
std::string_view Text(TierName tier) { return tier == TierName::kDram ? "DRAM" : "SSD"; }

}  // namespace

void QuotaTable::SetQuota(std::string_view tenant, TierName tier, uint64_t bytes) {
  Of(tenant)[Index(tier)].quota_bytes = bytes;
}

Status QuotaTable::TryCharge(std::string_view tenant, TierName tier, uint64_t bytes) {
  const uint64_t used = used_bytes(tenant, tier);
  const uint64_t quota = quota_bytes(tenant, tier);
  if (used > quota || bytes > quota - used) {
    return ResourceExhausted("tenant '", tenant, "' uses ", used, " of its ", quota, " bytes of ",
                             Text(tier), " and needs ", bytes,
                             " more; delete documents of it or raise its quota");
  }
  Of(tenant)[Index(tier)].used_bytes += bytes;
  return OkStatus();
}

void QuotaTable::ChargeStored(std::string_view tenant, TierName tier, uint64_t bytes) {
  Of(tenant)[Index(tier)].used_bytes += bytes;
}

void QuotaTable::Release(std::string_view tenant, TierName tier, uint64_t bytes) {
  Of(tenant)[Index(tier)].used_bytes -= bytes;
}

uint64_t QuotaTable::used_bytes(std::string_view tenant, TierName tier) const {
  const Account* account = Find(tenant, tier);
  return account ? account->used_bytes : 0;
}

uint64_t QuotaTable::quota_bytes(std::string_view tenant, TierName tier) const {
  const Account* account = Find(tenant, tier);
  return account ? account->quota_bytes : default_bytes_;
}

QuotaTable::Accounts& QuotaTable::Of(std::string_view tenant) {
  const auto it = tenants_.find(tenant);
  if (it != tenants_.end()) return it->second;
  const Account account{.used_bytes = 0, .quota_bytes = default_bytes_};
  return tenants_.emplace(tenant, Accounts{account, account}).first->second;
}

const QuotaTable::Account* QuotaTable::Find(std::string_view tenant, TierName tier) const {
  const auto it = tenants_.find(tenant);
  return it == tenants_.end() ? nullptr : &it->second[Index(tier)];
}

}  // namespace quire::kvserver
