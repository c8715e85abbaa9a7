// SPDX-License-Identifier: Apache-2.0
//
// DocumentRegistryImpl: what workers computed of documents, beside their pages.
#include <utility>

#include "common/documents/document_rules.h"
#include "kvserver/registry/document_registry_impl.h"
#include "kvserver/registry/extras/extra_record.h"
#include "kvserver/registry/rows/document_keys.h"
#include "kvserver/store/metadata/checked_value.h"

namespace quire::kvserver {
namespace {

constexpr size_t kMostExtras = 32;

Status NoSuchExtra(const DocumentName& document, std::string_view name) {
  return NotFound("document ", Describe(document), " has no extra '", name,
                  "'; list its extras to see what is there");
}

}  // namespace

StatusOr<Extra> DocumentRegistryImpl::ReadExtra(std::string_view tenant,
                                                const DocumentName& document,
                                                std::string_view name) {
  const StatusOr<std::string> row = metadata_->Get(ExtraKey(tenant, document, name));
  if (IsNotFound(row.status())) return NoSuchExtra(document, name);
  QUIRE_RETURN_IF_ERROR(row.status());
  return DecodeExtra(name, *row);
}

StatusOr<std::vector<SegmentKey>> DocumentRegistryImpl::ReadExtraSegments(
    std::string_view tenant, const DocumentName& document, std::string_view name) {
  const StatusOr<std::string> row = metadata_->Get(ExtraKey(tenant, document, name));
  if (IsNotFound(row.status())) return NoSuchExtra(document, name);
  QUIRE_RETURN_IF_ERROR(row.status());
  return DecodeExtraSegments(name, *row);
}

StatusOr<Extra> DocumentRegistryImpl::PutExtra(std::string_view tenant,
                                               const DocumentName& document, std::string_view name,
                                               uint32_t version, std::string_view bytes,
                                               std::span<const SegmentKey> segments) {
  QUIRE_RETURN_IF_ERROR(CheckExtraName(name));
  if (version == 0) return InvalidArgument("extra '", name, "' has version 0; give 1 or more");
  if (bytes.size() > kMaxExtraBytes) {
    return InvalidArgument("extra '", name, "' has ", bytes.size(), " bytes; at most ",
                           kMaxExtraBytes, " are kept");
  }
  if (segments.size() > kMostExtraSegments) {
    return InvalidArgument("extra '", name, "' names ", segments.size(), " segments; at most ",
                           kMostExtraSegments, " go with a document");
  }
  MutexLock lock(write_mutex_);
  QUIRE_ASSIGN_OR_RETURN(const Document found, Get(tenant, document));
  const StatusOr<Extra> stored = ReadExtra(tenant, found.name, name);
  if (stored.ok() && stored->version > version) {
    return FailedPrecondition("extra '", name, "' of ", Describe(found.name), " has version ",
                              stored->version, " already; put that one or a newer one");
  }
  if (IsNotFound(stored.status())) {
    QUIRE_ASSIGN_OR_RETURN(const auto others,
                           metadata_->Scan(ExtrasPrefix(tenant, found.name), "", kMostExtras));
    if (others.size() == kMostExtras) {
      return ResourceExhausted("document ", Describe(found.name), " has ", kMostExtras,
                               " extras already; replace one of them");
    }
  }
  Extra extra{.name = std::string(name),
              .version = version,
              .size = bytes.size(),
              .crc32c = Crc32c(AsBytes(bytes)),
              .created_unix_micros = clock_->UnixMicros(),
              .num_segments = static_cast<uint32_t>(segments.size())};
  MetadataBatch batch;
  batch.Put(ExtraKey(tenant, found.name, name), EncodeExtra(extra, segments));
  batch.Put(ExtraBytesKey(tenant, found.name, name), EncodeExtraBytes(bytes));
  QUIRE_RETURN_IF_ERROR(metadata_->Apply(batch));
  return extra;
}

StatusOr<DocumentRegistry::ExtraValue> DocumentRegistryImpl::GetExtra(std::string_view tenant,
                                                                      const DocumentName& document,
                                                                      std::string_view name) {
  QUIRE_RETURN_IF_ERROR(CheckExtraName(name));
  QUIRE_ASSIGN_OR_RETURN(const Document found, Get(tenant, document));
  ExtraValue value;
  QUIRE_ASSIGN_OR_RETURN(value.extra, ReadExtra(tenant, found.name, name));
  const StatusOr<std::string> row = metadata_->Get(ExtraBytesKey(tenant, found.name, name));
  if (IsNotFound(row.status())) return NoSuchExtra(found.name, name);  // Deleted meanwhile.
  QUIRE_RETURN_IF_ERROR(row.status());
  QUIRE_ASSIGN_OR_RETURN(value.bytes, DecodeExtraBytes(name, *row));
  // A put in between has other bytes than the row that was read first.
  QUIRE_ASSIGN_OR_RETURN(value.segments, ReadExtraSegments(tenant, found.name, name));
  value.extra.num_segments = static_cast<uint32_t>(value.segments.size());
  value.extra.size = value.bytes.size();
  value.extra.crc32c = Crc32c(AsBytes(value.bytes));
  return value;
}

StatusOr<std::vector<Extra>> DocumentRegistryImpl::ListExtras(std::string_view tenant,
                                                              const DocumentName& document) {
  QUIRE_ASSIGN_OR_RETURN(const Document found, Get(tenant, document));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<MetadataEntry> entries,
                         metadata_->Scan(ExtrasPrefix(tenant, found.name), "", kMostExtras));
  std::vector<Extra> extras;
  for (const MetadataEntry& entry : entries) {
    const auto name = ParseExtraName(entry.key);
    if (!name) return DataLoss("the registry holds a malformed key; restore it from a backup");
    QUIRE_ASSIGN_OR_RETURN(extras.emplace_back(), DecodeExtra(*name, entry.value));
  }
  return extras;
}

}  // namespace quire::kvserver
