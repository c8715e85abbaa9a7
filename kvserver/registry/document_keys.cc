// SPDX-License-Identifier: Apache-2.0
#include "kvserver/registry/document_keys.h"

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

std::string VersionText(uint64_t version) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (int shift = 60; shift >= 0; shift -= 4) out.push_back(kDigits[(version >> shift) & 15]);
  return out;
}

std::optional<uint64_t> ParseVersion(std::string_view text) {
  uint64_t version = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, version, 16);
  if (text.size() != 16 || error != std::errc() || stopped != end) return std::nullopt;
  return version;
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
  const std::optional<uint64_t> version = ParseVersion(last[2]);
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

std::string DocumentKey(std::string_view tenant, const DocumentName& name) {
  return Join({"doc", tenant, name.collection, name.name, VersionText(name.version)});
}
std::string ChainKey(std::string_view tenant, const DocumentName& name) {
  return Join({"chn", tenant, name.collection, name.name, VersionText(name.version)});
}
std::string PinKey(std::string_view tenant, const DocumentName& name) {
  return Join({"pin", tenant, name.collection, name.name, VersionText(name.version)});
}
std::string ReferenceKey(std::string_view tenant, const SegmentKey& segment,
                         const DocumentName& name) {
  return Join(
      {"ref", tenant, segment.Hex(), name.collection, name.name, VersionText(name.version)});
}
std::string PendingDeleteKey(std::string_view tenant, const SegmentKey& segment) {
  return Join({"del", tenant, segment.Hex()});
}
std::string CollectionKey(std::string_view tenant, std::string_view collection) {
  return Join({"col", tenant, collection});
}

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

std::optional<DocumentName> ParseDocumentName(std::string_view key) {
  const std::vector<std::string_view> fields = Split(key);
  const bool is_document = fields.size() == 5 && fields[0] == "doc";
  const bool is_reference = fields.size() == 6 && fields[0] == "ref";
  if (!is_document && !is_reference) return std::nullopt;
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

std::string EncodePendingDelete(uint64_t incarnation) { return VersionText(incarnation); }

uint64_t DecodePendingDelete(std::string_view value) { return ParseVersion(value).value_or(0); }

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
