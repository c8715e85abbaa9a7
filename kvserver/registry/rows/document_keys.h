// SPDX-License-Identifier: Apache-2.0
//
// Keys of the document registry in its MetadataStore, and the rules for names. Fields are joined by
// 0x1f, which no name contains and which sorts before every character of one. Entries therefore
// sort by tenant, collection, name, version.
//
//   doc <tenant> <collection> <name> <version>            -> DocumentRecord
//   chn <tenant> <collection> <name> <version>            -> keys of the chain's segments, 32 bytes
//                                                            each
//   pin <tenant> <collection> <name> <version>            -> nothing: that document is pinned
//   ref <tenant> <segment> <collection> <name> <version>  -> nothing: that document refers to it
//   del <tenant> <segment>                                -> incarnation still to be removed
//   col <tenant> <collection>                             -> CollectionSettings
//   lat <tenant> <collection> <name>                      -> LatestVersion
//   crt <tenant> <age> <collection> <name> <version>      -> nothing: orders documents by creation
//   ing <tenant> <collection> <name> <version>            -> number of the ingest that has it
//   sta <tenant> <collection> <name> <version>            -> DocumentStatistics
//   exi <tenant> <collection> <name> <version> <extra>    -> Extra
//   exb <tenant> <collection> <name> <version> <extra>    -> bytes of the extra
//   evt <tenant> <position>                               -> DocumentEvent
//   fmt                                                   -> version of this layout
//
// Versions, positions and numbers of ingests are 16 and segments 64 hexadecimal digits. An age is
// the complement of a time of creation, in 16 digits: newer documents sort first.
#ifndef QUIRE_KVSERVER_REGISTRY_ROWS_DOCUMENT_KEYS_H_
#define QUIRE_KVSERVER_REGISTRY_ROWS_DOCUMENT_KEYS_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "kvserver/registry/document_registry.h"
#include "kvserver/store/metadata/metadata_store.h"
#include "quire/status.h"

namespace quire::kvserver {

/// INVALID_ARGUMENT unless collection and name are 1..255 bytes of UTF-8 without control characters
/// or '/'.
[[nodiscard]] Status CheckDocumentName(const DocumentName& name);
[[nodiscard]] Status CheckCollection(std::string_view collection);

/// "collection/name@version", for messages.
std::string Describe(const DocumentName& name);

/// NOT_FOUND with the remedy.
[[nodiscard]] Status NoSuchDocument(const DocumentName& name);

// Keys. REQUIRES: valid names.
std::string DocumentKey(std::string_view tenant, const DocumentName& name);
std::string ChainKey(std::string_view tenant, const DocumentName& name);
std::string PinKey(std::string_view tenant, const DocumentName& name);
std::string ReferenceKey(std::string_view tenant, const SegmentKey& segment,
                         const DocumentName& name);
std::string PendingDeleteKey(std::string_view tenant, const SegmentKey& segment);
std::string CollectionKey(std::string_view tenant, std::string_view collection);
std::string LatestKey(std::string_view tenant, const DocumentName& name);
std::string CreatedKey(std::string_view tenant, int64_t created_unix_micros,
                       const DocumentName& name);
std::string IngestKey(std::string_view tenant, const DocumentName& name);
std::string StatisticsKey(std::string_view tenant, const DocumentName& name);
std::string ExtraKey(std::string_view tenant, const DocumentName& name, std::string_view extra);
std::string ExtraBytesKey(std::string_view tenant, const DocumentName& name,
                          std::string_view extra);
std::string EventKey(std::string_view tenant, uint64_t position);
std::string FormatKey();

// Prefixes of all keys of a kind.
std::string DocumentsPrefix(std::string_view tenant);
std::string CollectionPrefix(std::string_view tenant, std::string_view collection);
std::string VersionsPrefix(std::string_view tenant, const DocumentName& name);
std::string ReferencesPrefix(std::string_view tenant, const SegmentKey& segment);
/// Prefix of the references of all documents, of every tenant.
std::string AllReferencesPrefix();
std::string PendingDeletesPrefix();
std::string CollectionsPrefix(std::string_view tenant);  ///< Settings, not documents.
std::string AllDocumentsPrefix();                        ///< Documents of every tenant.
std::string AllPinsPrefix();                             ///< Pins of every tenant.
std::string AllCollectionsPrefix();                      ///< Settings of every tenant.
std::string CreatedPrefix(std::string_view tenant);
std::string AllIngestsPrefix();
std::string AllLatestPrefix();  ///< Names of every tenant.
std::string AllStatisticsPrefix();
std::string ExtrasPrefix(std::string_view tenant, const DocumentName& name);
std::string EventsPrefix(std::string_view tenant);
std::string AllEventsPrefix();

/// The document named by a CreatedKey, DocumentKey or ReferenceKey; nullopt for other keys.
std::optional<DocumentName> ParseDocumentName(std::string_view key);

struct TenantDocument {
  std::string tenant;
  DocumentName name;
};
/// Each is nullopt for anything but a key of its kind.
std::optional<TenantDocument> ParseDocumentKey(std::string_view key);
std::optional<TenantDocument> ParseChainKey(std::string_view key);
std::optional<TenantDocument> ParsePinKey(std::string_view key);
std::optional<TenantDocument> ParseIngestKey(std::string_view key);
std::optional<TenantDocument> ParseStatisticsKey(std::string_view key);
/// The name of a LatestKey, with version 0.
std::optional<TenantDocument> ParseLatestKey(std::string_view key);

struct TenantEventKey {
  std::string tenant;
  uint64_t position = 0;
};
/// nullopt for anything but an EventKey.
std::optional<TenantEventKey> ParseEventKey(std::string_view key);
/// The extra's name in an ExtraKey or ExtraBytesKey; nullopt for other keys.
std::optional<std::string> ParseExtraName(std::string_view key);

struct TenantCollection {
  std::string tenant;
  std::string collection;
};
/// nullopt for anything but a CollectionKey.
std::optional<TenantCollection> ParseCollectionKey(std::string_view key);

/// The segment of a ReferenceKey; nullopt for other keys.
std::optional<SegmentKey> SegmentOfReference(std::string_view key);

/// 16 hexadecimal digits, and back; nullopt for anything else.
std::string HexOf(uint64_t number);
std::optional<uint64_t> NumberOfHex(std::string_view text);

/// Value of a PendingDeleteKey: the incarnation to remove. A later put makes another one, which
/// stays.
std::string EncodePendingDelete(uint64_t incarnation);
/// Incarnation in the value; 0 for invalid values and notes older than incarnations.
uint64_t DecodePendingDelete(std::string_view value);

struct PendingDelete {
  std::string tenant;
  SegmentKey segment;
};
/// nullopt for anything but a PendingDeleteKey.
std::optional<PendingDelete> ParsePendingDelete(std::string_view key);

/// Calls `visit` with every entry whose key starts with `prefix`, in order.
[[nodiscard]] Status ForEachEntry(MetadataStore& metadata, std::string_view prefix,
                                  const std::function<void(const MetadataEntry&)>& visit);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_REGISTRY_ROWS_DOCUMENT_KEYS_H_
