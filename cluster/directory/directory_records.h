// SPDX-License-Identifier: Apache-2.0
//
// Records of the directory in etcd: keys under /quire-registry/NAME/, and names of documents as
// JSON. They lie beside the members' keys, which every node mirrors, and not below them. Unknown
// fields are ignored. Pure functions. Errors: DATA_LOSS naming the key whose value cannot be read.
#ifndef QUIRE_CLUSTER_DIRECTORY_DIRECTORY_RECORDS_H_
#define QUIRE_CLUSTER_DIRECTORY_DIRECTORY_RECORDS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "common/documents/collection_agreement.h"
#include "common/documents/document_agreement.h"
#include "quire/documents.h"
#include "quire/key.h"
#include "quire/status.h"

namespace quire::cluster {

/// Most bytes of one record. etcd refuses requests above 1.5 MiB.
inline constexpr size_t kMaxDirectoryRecordBytes = size_t{128} << 10;

/// "/quire-registry/NAME/".
[[nodiscard]] std::string RegistryPrefix(std::string_view cluster_name);
/// "/quire-registry/NAME/documents/".
[[nodiscard]] std::string DocumentsPrefix(std::string_view cluster_name);
/// "/quire-registry/NAME/collections/".
[[nodiscard]] std::string CollectionsPrefix(std::string_view cluster_name);
/// "/quire-registry/NAME/tenants/TENANT".
[[nodiscard]] std::string TenantKey(std::string_view cluster_name, std::string_view tenant);

struct DirectoryKey {
  std::string tenant;
  DocumentName name;  ///< Version 0.
};
/// "TENANT/COLLECTION/DOCUMENT", behind DocumentsPrefix.
[[nodiscard]] std::string DirectoryKeyText(std::string_view tenant, const DocumentName& name);
/// nullopt for any other text.
[[nodiscard]] std::optional<DirectoryKey> ParseDirectoryKey(std::string_view text);

/// One line of JSON. RESOURCE_EXHAUSTED above kMaxDirectoryRecordBytes. REQUIRES: the name exists.
[[nodiscard]] StatusOr<std::string> DirectoryRecord(const AgreedName& name);
/// Reads the record under `key`. The revision is 0.
[[nodiscard]] StatusOr<AgreedName> ParseDirectoryRecord(const DirectoryKey& key,
                                                        std::string_view record);

[[nodiscard]] std::string CollectionRecordText(const Collection& collection);
/// Reads the record under "TENANT/COLLECTION". An empty codec is the default.
[[nodiscard]] StatusOr<AgreedCollection> ParseCollectionRecord(std::string_view key,
                                                               std::string_view record);

[[nodiscard]] std::string TenantRecordText(const TenantSalt& salt);
[[nodiscard]] StatusOr<TenantSalt> ParseTenantRecord(std::string_view tenant,
                                                     std::string_view record);

}  // namespace quire::cluster

#endif  // QUIRE_CLUSTER_DIRECTORY_DIRECTORY_RECORDS_H_
