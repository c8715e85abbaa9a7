// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/metadata/tenant_directory.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "common/base/observe/log.h"
#include "common/base/random.h"
#include "kvserver/store/metadata/checked_value.h"
#include "kvserver/store/metadata/segment_record.h"

namespace quire::kvserver {
namespace {

bool IsTenantName(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
  };
  return !name.empty() && name.size() <= kMaxTenantBytes && std::ranges::all_of(name, allowed);
}

Status WriteSalt(Database* database, const std::string& tenant, const TenantSalt& salt) {
  const auto bytes = std::as_bytes(std::span(salt));
  Database::Batch batch = database->NewBatch();
  batch.Put(Table::kTenants, tenant, {AsText(bytes), AsText(EncodeTrailer(Crc32c(bytes)))});
  return database->Commit(batch, /*sync=*/true);
}

/// True when segments are stored under keys of this tenant.
StatusOr<bool> HasSegments(Database* database, const std::string& tenant) {
  bool found = false;
  const auto visit = [&](std::string_view, std::string_view value) {
    const StatusOr<SegmentRecord> record = DecodeSegmentRecord(value);
    found = record.ok() && record->tenant == tenant;
    return !found;
  };
  QUIRE_RETURN_IF_ERROR(database->Scan(Table::kSegments, "", visit));
  return found;
}

/// Returns the salt on this disk; nullopt when the tenant has none and no segments.
StatusOr<std::optional<TenantSalt>> StoredSalt(Database* database, const std::string& tenant) {
  const StatusOr<std::string> value = database->Get(Table::kTenants, tenant);
  if (IsNotFound(value.status())) {
    // A new one would make existing segments unreachable.
    QUIRE_ASSIGN_OR_RETURN(const bool has_segments, HasSegments(database, tenant));
    if (!has_segments) return std::optional<TenantSalt>();
    return DataLoss("tenant '", tenant,
                    "' has segments and its salt is gone; restore the data directory from a backup "
                    "or choose an empty one");
  }
  QUIRE_RETURN_IF_ERROR(value.status());
  const auto checked = VerifyTrailer(*value);
  TenantSalt salt;
  if (!checked || checked->bytes.size() != salt.size()) {
    return DataLoss(
        "the salt of tenant '", tenant,
        "' is damaged; restore the data directory from a backup or choose an empty one");
  }
  std::memcpy(salt.data(), checked->bytes.data(), salt.size());
  return std::optional(salt);
}

/// Salts of a server by itself: random ones for new tenants.
TenantSalts OwnSalts(const std::vector<std::string>& tenants, const TenantSalts& stored) {
  TenantSalts salts = stored;
  for (const std::string& tenant : tenants) {
    if (salts.contains(tenant)) continue;
    SystemRandom().Fill(salts[tenant]);
  }
  return salts;
}

StatusOr<TenantSalts> AgreedSalts(const std::vector<std::string>& tenants,
                                  const TenantSalts& stored, const AgreeOnSalts& agree) {
  StatusOr<TenantSalts> agreed = agree(tenants, stored);
  if (!IsUnavailable(agreed.status())) return agreed;
  for (const std::string& tenant : tenants) {
    if (stored.contains(tenant)) continue;
    return Annotate(agreed.status(), "tenant '", tenant,
                    "' is new on this disk, and its salt is the cluster's: start the server again "
                    "when the cluster's etcd answers");
  }
  LogWarning("salts_not_compared", {{"why", std::string(Message(agreed.status()))}});
  return stored;
}

/// Keeps a salt where the disk has another one or none.
Status KeepSalt(Database* database, const std::string& tenant, const TenantSalt& salt,
                const TenantSalts& stored) {
  const auto known = stored.find(tenant);
  if (known != stored.end() && known->second == salt) return OkStatus();
  QUIRE_ASSIGN_OR_RETURN(const bool has_segments, HasSegments(database, tenant));
  if (!has_segments) return WriteSalt(database, tenant, salt);
  return FailedPrecondition(
      "tenant '", tenant,
      "' has segments whose keys were made with another salt than the cluster's: start the server "
      "with an empty data directory and put the documents again, or leave the tenant away");
}

}  // namespace

StatusOr<TenantDirectory> TenantDirectory::Open(Database* database,
                                                const std::vector<std::string>& tenants,
                                                const AgreeOnSalts& agree) {
  if (tenants.empty()) {
    return InvalidArgument("no tenants given; list at least one, such as 'default'");
  }
  TenantSalts stored;
  for (const std::string& tenant : tenants) {
    if (!IsTenantName(tenant)) {
      return InvalidArgument("tenant '", tenant,
                             "' is not a name of 1..64 bytes of [A-Za-z0-9_.-]; rename it");
    }
    QUIRE_ASSIGN_OR_RETURN(const auto salt, StoredSalt(database, tenant));
    if (salt) stored[tenant] = *salt;
  }
  TenantDirectory directory;
  if (agree) {
    QUIRE_ASSIGN_OR_RETURN(directory.salts_, AgreedSalts(tenants, stored, agree));
  } else {
    directory.salts_ = OwnSalts(tenants, stored);
  }
  for (const auto& [tenant, salt] : directory.salts_) {
    QUIRE_RETURN_IF_ERROR(KeepSalt(database, tenant, salt, stored));
  }
  return directory;
}

StatusOr<const TenantSalt*> TenantDirectory::Salt(std::string_view tenant) const {
  const auto it = salts_.find(tenant);
  if (it != salts_.end()) return &it->second;
  return NotFound("tenant '", tenant.substr(0, kMaxTenantBytes),
                  "' is not known; add it to the server's list of tenants");
}

}  // namespace quire::kvserver
