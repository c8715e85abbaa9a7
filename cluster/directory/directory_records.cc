// SPDX-License-Identifier: Apache-2.0
#include "cluster/directory/directory_records.h"

#include <algorithm>
#include <utility>

#include "cluster/membership/cluster_records.h"
#include "common/documents/agreed_changes.h"
#include "common/wire/convert.h"
#include "common/wire/convert_document.h"
#include "quire/v1/directory.pb.h"

namespace quire::cluster {
namespace {

constexpr std::string_view kAllRegistries = "/quire-registry/";

Status Unreadable(const DirectoryKey& key, std::string_view why) {
  return DataLoss("etcd's record documents/", DirectoryKeyText(key.tenant, key.name), ": ", why);
}

Status CheckVersion(const DirectoryKey& key, const AgreedName& name, const Document& next) {
  const DocumentName& its = next.name;
  if (its.collection != key.name.collection || its.name != key.name.name) {
    return Unreadable(key, "a version is of another name");
  }
  const uint64_t previous = name.versions.empty() ? 0 : name.versions.back().name.version;
  if (its.version <= previous || its.version > name.highest) {
    return Unreadable(key, "its versions are not in order, or above the highest");
  }
  if (next.state != DocumentState::kReady) return Unreadable(key, "a version is not READY");
  return OkStatus();
}

}  // namespace

std::string RegistryPrefix(std::string_view cluster_name) {
  return std::string(kAllRegistries).append(cluster_name).append("/");
}

std::string DocumentsPrefix(std::string_view cluster_name) {
  return RegistryPrefix(cluster_name) + "documents/";
}

std::string CollectionsPrefix(std::string_view cluster_name) {
  return RegistryPrefix(cluster_name) + "collections/";
}

std::string TenantKey(std::string_view cluster_name, std::string_view tenant) {
  return RegistryPrefix(cluster_name).append("tenants/").append(tenant);
}

std::string DirectoryKeyText(std::string_view tenant, const DocumentName& name) {
  return std::string(tenant).append("/").append(name.collection).append("/").append(name.name);
}

std::optional<DirectoryKey> ParseDirectoryKey(std::string_view text) {
  const size_t first = text.find('/');
  if (first == std::string_view::npos) return std::nullopt;
  const size_t second = text.find('/', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  DirectoryKey key{.tenant = std::string(text.substr(0, first)),
                   .name = {std::string(text.substr(first + 1, second - first - 1)),
                            std::string(text.substr(second + 1)), 0}};
  const bool is_whole = !key.tenant.empty() && !key.name.collection.empty() &&
                        !key.name.name.empty() && key.name.name.find('/') == std::string::npos;
  return is_whole ? std::optional(std::move(key)) : std::nullopt;
}

StatusOr<std::string> DirectoryRecord(const AgreedName& name) {
  v1::DocumentEntry entry;
  entry.set_latest(name.latest);
  entry.set_highest(name.highest);
  for (Document version : name.versions) {
    version.is_latest = false;  // `latest` says it.
    wire::DocumentToProto(version, entry.add_versions());
  }
  std::string text = ToJsonText(entry);
  if (text.size() <= kMaxDirectoryRecordBytes) return text;
  return ResourceExhausted("the name has ", name.versions.size(), " versions, which take ",
                           text.size(), " bytes in etcd; at most ", kMaxDirectoryRecordBytes,
                           " fit: delete old versions first");
}

StatusOr<AgreedName> ParseDirectoryRecord(const DirectoryKey& key, std::string_view record) {
  v1::DocumentEntry entry;
  const std::string text = DirectoryKeyText(key.tenant, key.name);
  const Status parsed = FromJsonText(text, record, &entry);
  if (!parsed.ok()) return Unreadable(key, Message(parsed));
  AgreedName name{.latest = entry.latest(), .highest = entry.highest()};
  for (const v1::Document& version : entry.versions()) {
    auto document = wire::DocumentFromProto(version);
    if (!document.ok()) return Unreadable(key, Message(document.status()));
    QUIRE_RETURN_IF_ERROR(CheckVersion(key, name, *document));
    name.versions.push_back(*std::move(document));
  }
  const bool has_latest =
      name.versions.empty() ? name.latest == 0 : name.Find(name.latest) != nullptr;
  if (!name.exists() || !has_latest) {
    return Unreadable(key, "the highest or the latest version is not among its versions");
  }
  MarkLatest(&name);
  return name;
}

std::string CollectionRecordText(const Collection& collection) {
  v1::CollectionRecord record;
  record.set_codec(collection.codec);
  record.set_ttl_seconds(collection.ttl_seconds.value_or(0));
  return ToJsonText(record);
}

StatusOr<AgreedCollection> ParseCollectionRecord(std::string_view key, std::string_view text) {
  v1::CollectionRecord record;
  const size_t slash = key.find('/');
  const Status parsed = FromJsonText(key, text, &record);
  const auto ttl_seconds = wire::TtlFromProto(record.ttl_seconds());
  if (slash == std::string_view::npos || slash == 0 || !parsed.ok() || !ttl_seconds.ok()) {
    return DataLoss("etcd's record collections/", key, " is no collection: set it again");
  }
  Collection settings{.name = std::string(key.substr(slash + 1)),
                      .codec = record.codec(),
                      .codec_is_default = record.codec().empty(),
                      .ttl_seconds = *ttl_seconds};
  return AgreedCollection{.tenant = std::string(key.substr(0, slash)),
                          .settings = std::move(settings)};
}

std::string TenantRecordText(const TenantSalt& salt) {
  v1::TenantRecord record;
  record.set_salt(SegmentKey{salt}.Hex());
  return ToJsonText(record);
}

StatusOr<TenantSalt> ParseTenantRecord(std::string_view tenant, std::string_view text) {
  v1::TenantRecord record;
  const Status parsed = FromJsonText(tenant, text, &record);
  const auto salt = SegmentKey::FromHex(record.salt());
  if (parsed.ok() && salt) return salt->bytes;
  return DataLoss("etcd's record tenants/", tenant,
                  " is no salt of a tenant: restore etcd's newest backup");
}

}  // namespace quire::cluster
