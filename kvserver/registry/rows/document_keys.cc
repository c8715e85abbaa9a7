// SPDX-License-Identifier: Apache-2.0
#include "kvserver/registry/rows/document_keys.h"

#include <charconv>
#include <initializer_list>
#include <span>
#include <vector>

#include "common/base/utf8.h"

namespace quire::kvserver {
namespace {

constexpr char kSeparator = '\x1f';
constexpr size_t kMaxFieldBytes = 255;

std::string Join(std::initializer_list<std::string_view> fields) {
  std::string out;
  for (std::string_view field : fields) {
    if (!out.empty()) out.push_back(kSeparator);
    out.append(field);
  }
  return out;
}

std::string Prefix(std::initializer_list<std::string_view> fields) {
  std::string out = Join(fields);
  out.push_back(kSeparator);
  return out;
}

std::vector<std::string_view> Split(std::string_view key) {
  std::vector<std::string_view> fields;
  for (;;) {
    const size_t end = key.find(kSeparator);
    fields.push_back(key.substr(0, end));
    if (end == std::string_view::npos) return fields;
    key.remove_prefix(end + 1);
  }
}

bool IsName(std::string_view text) {
  if (text.empty() || text.size() > kMaxFieldBytes) return false;
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    const auto lead = static_cast<unsigned char>(text[0]);
    if (length == 0 || lead < 0x20 || lead == 0x7f || lead == '/') return false;
    text.remove_prefix(length);
  }
  return true;
}

/// Parses the last three fields of a key as a name; nullopt when they are invalid.
std::optional<DocumentName> NameInLast(std::span<const std::string_view> fields) {
  const auto last = fields.last(3);
  const std::optional<uint64_t> version = NumberOfHex(last[2]);
  if (!version || !IsName(last[0]) || !IsName(last[1])) return std::nullopt;
  return DocumentName{std::string(last[0]), std::string(last[1]), *version};
}

/// Parses a key that consists of `kind`, tenant and name; nullopt for any other key.
std::optional<TenantDocument> ParseTenantDocument(std::string_view key, std::string_view kind) {
  const std::vector<std::string_view> fields = Split(key);
  if (fields.size() != 5 || fields[0] != kind) return std::nullopt;
  auto name = NameInLast(fields);
  if (!name) return std::nullopt;
  return TenantDocument{std::string(fields[1]), *std::move(name)};
}

Status CheckField(std::string_view what, std::string_view text) {
  if (IsName(text)) return OkStatus();
  return InvalidArgument("the ", what, " is not a name of 1..", kMaxFieldBytes,
                         " bytes of UTF-8 without control characters or '/'; rename it");
}

}  // namespace

std::string HexOf(uint64_t number) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (int shift = 60; shift >= 0; shift -= 4) out.push_back(kDigits[(number >> shift) & 15]);
  return out;
}

std::optional<uint64_t> NumberOfHex(std::string_view text) {
  uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number, 16);
  if (text.size() != 16 || error != std::errc() || stopped != end) return std::nullopt;
  return number;
}

Status CheckCollection(std::string_view collection) { return CheckField("collection", collection); }

Status CheckDocumentName(const DocumentName& name) {
  QUIRE_RETURN_IF_ERROR(CheckCollection(name.collection));
  return CheckField("document name", name.name);
}

std::string Describe(const DocumentName& name) {
  std::string out = name.collection + "/" + name.name;
  if (name.version != 0) out.append("@").append(std::to_string(name.version));
  return out;
}

Status NoSuchDocument(const DocumentName& name) {
  return NotFound("document ", Describe(name), " is not registered; register it, or list the ",
                  "collection to see what is");
}

std::string DocumentKey(std::string_view tenant, const DocumentName& name) {
  return Join({"doc", tenant, name.collection, name.name, HexOf(name.version)});
}
std::string ChainKey(std::string_view tenant, const DocumentName& name) {
  return Join({"chn", tenant, name.collection, name.name, HexOf(name.version)});
}
std::string PinKey(std::string_view tenant, const DocumentName& name) {
  return Join({"pin", tenant, name.collection, name.name, HexOf(name.version)});
}
std::string ReferenceKey(std::string_view tenant, const SegmentKey& segment,
                         const DocumentName& name) {
  return Join({"ref", tenant, segment.Hex(), name.collection, name.name, HexOf(name.version)});
}
std::string PendingDeleteKey(std::string_view tenant, const SegmentKey& segment) {
  return Join({"del", tenant, segment.Hex()});
}
std::string CollectionKey(std::string_view tenant, std::string_view collection) {
  return Join({"col", tenant, collection});
}

std::string LatestKey(std::string_view tenant, const DocumentName& name) {
  return Join({"lat", tenant, name.collection, name.name});
}
std::string CreatedKey(std::string_view tenant, int64_t created_unix_micros,
                       const DocumentName& name) {
  return Join({"crt", tenant, HexOf(~static_cast<uint64_t>(created_unix_micros)), name.collection,
               name.name, HexOf(name.version)});
}
std::string IngestKey(std::string_view tenant, const DocumentName& name) {
  return Join({"ing", tenant, name.collection, name.name, HexOf(name.version)});
}
std::string StatisticsKey(std::string_view tenant, const DocumentName& name) {
  return Join({"sta", tenant, name.collection, name.name, HexOf(name.version)});
}
std::string ExtraKey(std::string_view tenant, const DocumentName& name, std::string_view extra) {
  return Join({"exi", tenant, name.collection, name.name, HexOf(name.version), extra});
}
std::string ExtraBytesKey(std::string_view tenant, const DocumentName& name,
                          std::string_view extra) {
  return Join({"exb", tenant, name.collection, name.name, HexOf(name.version), extra});
}
std::string EventKey(std::string_view tenant, uint64_t position) {
  return Join({"evt", tenant, HexOf(position)});
}
std::string FormatKey() { return "fmt"; }

std::string DocumentsPrefix(std::string_view tenant) { return Prefix({"doc", tenant}); }
std::string CollectionPrefix(std::string_view tenant, std::string_view collection) {
  return Prefix({"doc", tenant, collection});
}
std::string VersionsPrefix(std::string_view tenant, const DocumentName& name) {
  return Prefix({"doc", tenant, name.collection, name.name});
}
std::string ReferencesPrefix(std::string_view tenant, const SegmentKey& segment) {
  return Prefix({"ref", tenant, segment.Hex()});
}
std::string AllReferencesPrefix() { return Prefix({"ref"}); }
std::string PendingDeletesPrefix() { return Prefix({"del"}); }
std::string CollectionsPrefix(std::string_view tenant) { return Prefix({"col", tenant}); }
std::string AllDocumentsPrefix() { return Prefix({"doc"}); }
std::string AllPinsPrefix() { return Prefix({"pin"}); }
std::string AllCollectionsPrefix() { return Prefix({"col"}); }
std::string CreatedPrefix(std::string_view tenant) { return Prefix({"crt", tenant}); }
std::string AllIngestsPrefix() { return Prefix({"ing"}); }
std::string AllLatestPrefix() { return Prefix({"lat"}); }
std::string AllStatisticsPrefix() { return Prefix({"sta"}); }
std::string ExtrasPrefix(std::string_view tenant, const DocumentName& name) {
  return Prefix({"exi", tenant, name.collection, name.name, HexOf(name.version)});
}
std::string EventsPrefix(std::string_view tenant) { return Prefix({"evt", tenant}); }
std::string AllEventsPrefix() { return Prefix({"evt"}); }

std::optional<DocumentName> ParseDocumentName(std::string_view key) {
  const std::vector<std::string_view> fields = Split(key);
  const bool is_document = fields.size() == 5 && fields[0] == "doc";
  const bool is_long = fields.size() == 6 && (fields[0] == "ref" || fields[0] == "crt");
  if (!is_document && !is_long) return std::nullopt;
  return NameInLast(fields);
}

std::optional<TenantDocument> ParseDocumentKey(std::string_view key) {
  return ParseTenantDocument(key, "doc");
}
std::optional<TenantDocument> ParseChainKey(std::string_view key) {
  return ParseTenantDocument(key, "chn");
}
std::optional<TenantDocument> ParsePinKey(std::string_view key) {
  return ParseTenantDocument(key, "pin");
}

std::optional<TenantDocument> ParseIngestKey(std::string_view key) {
  return ParseTenantDocument(key, "ing");
}
std::optional<TenantDocument> ParseStatisticsKey(std::string_view key) {
  return ParseTenantDocument(key, "sta");
}

std::optional<TenantDocument> ParseLatestKey(std::string_view key) {
  const std::vector<std::string_view> fields = Split(key);
  if (fields.size() != 4 || fields[0] != "lat" || !IsName(fields[2]) || !IsName(fields[3])) {
    return std::nullopt;
  }
  return TenantDocument{std::string(fields[1]),
                        {std::string(fields[2]), std::string(fields[3]), 0}};
}

std::optional<TenantEventKey> ParseEventKey(std::string_view key) {
  const std::vector<std::string_view> fields = Split(key);
  if (fields.size() != 3 || fields[0] != "evt") return std::nullopt;
  const auto position = NumberOfHex(fields[2]);
  if (!position) return std::nullopt;
  return TenantEventKey{std::string(fields[1]), *position};
}

std::optional<std::string> ParseExtraName(std::string_view key) {
  const std::vector<std::string_view> fields = Split(key);
  if (fields.size() != 6 || (fields[0] != "exi" && fields[0] != "exb")) return std::nullopt;
  return std::string(fields[5]);
}

std::optional<TenantCollection> ParseCollectionKey(std::string_view key) {
  const std::vector<std::string_view> fields = Split(key);
  if (fields.size() != 3 || fields[0] != "col" || !IsName(fields[2])) return std::nullopt;
  return TenantCollection{std::string(fields[1]), std::string(fields[2])};
}

std::optional<SegmentKey> SegmentOfReference(std::string_view key) {
  const std::vector<std::string_view> fields = Split(key);
  if (fields.size() != 6 || fields[0] != "ref") return std::nullopt;
  return SegmentKey::FromHex(fields[2]);
}

std::string EncodePendingDelete(uint64_t incarnation) { return HexOf(incarnation); }

uint64_t DecodePendingDelete(std::string_view value) { return NumberOfHex(value).value_or(0); }

std::optional<PendingDelete> ParsePendingDelete(std::string_view key) {
  const std::vector<std::string_view> fields = Split(key);
  if (fields.size() != 3 || fields[0] != "del") return std::nullopt;
  const std::optional<SegmentKey> segment = SegmentKey::FromHex(fields[2]);
  if (!segment) return std::nullopt;
  return PendingDelete{std::string(fields[1]), *segment};
}

Status ForEachEntry(MetadataStore& metadata, std::string_view prefix,
                    const std::function<void(const MetadataEntry&)>& visit) {
  std::string after;
  for (;;) {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<MetadataEntry> entries,
                           metadata.Scan(prefix, after, MetadataStore::kMaxScanEntries));
    for (const MetadataEntry& entry : entries) visit(entry);
    if (entries.size() < MetadataStore::kMaxScanEntries) return OkStatus();
    after = entries.back().key;
  }
}

}  // namespace quire::kvserver
