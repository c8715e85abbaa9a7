// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/metadata/tenant_directory.h"

#include <algorithm>
#include <cstring>

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

StatusOr<TenantSalt> CreateSalt(Database* database, const std::string& tenant) {
  TenantSalt salt;
  SystemRandom().Fill(salt);
  const auto bytes = std::as_bytes(std::span(salt));
  Database::Batch batch = database->NewBatch();
  batch.Put(Table::kTenants, tenant, {AsText(bytes), AsText(EncodeTrailer(Crc32c(bytes)))});
  QUIRE_RETURN_IF_ERROR(database->Commit(batch, /*sync=*/true));
  return salt;
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

/// Makes the first salt of a tenant. A new one would make existing segments unreachable.
StatusOr<TenantSalt> FirstSalt(Database* database, const std::string& tenant) {
  QUIRE_ASSIGN_OR_RETURN(const bool has_segments, HasSegments(database, tenant));
  if (!has_segments) return CreateSalt(database, tenant);
  return DataLoss("tenant '", tenant,
                  "' has segments and its salt is gone; restore the data directory from a backup "
                  "or choose an empty one");
}

StatusOr<TenantSalt> LoadSalt(Database* database, const std::string& tenant) {
  const StatusOr<std::string> value = database->Get(Table::kTenants, tenant);
  if (value.status().code() == StatusCode::kNotFound) return FirstSalt(database, tenant);
  QUIRE_RETURN_IF_ERROR(value.status());
  const auto checked = VerifyTrailer(*value);
  TenantSalt salt;
  if (!checked || checked->bytes.size() != salt.size()) {
    return DataLoss(
        "the salt of tenant '", tenant,
        "' is damaged; restore the data directory from a backup or choose an empty one");
  }
  std::memcpy(salt.data(), checked->bytes.data(), salt.size());
  return salt;
}

}  // namespace

StatusOr<TenantDirectory> TenantDirectory::Open(Database* database,
                                                const std::vector<std::string>& tenants) {
  if (tenants.empty()) {
    return InvalidArgument("no tenants given; list at least one, such as 'default'");
  }
  TenantDirectory directory;
  for (const std::string& tenant : tenants) {
    if (!IsTenantName(tenant)) {
      return InvalidArgument("tenant '", tenant,
                             "' is not a name of 1..64 bytes of [A-Za-z0-9_.-]; rename it");
    }
    QUIRE_ASSIGN_OR_RETURN(directory.salts_[tenant], LoadSalt(database, tenant));
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
