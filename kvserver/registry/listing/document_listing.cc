// SPDX-License-Identifier: Apache-2.0
//
// DocumentRegistryImpl: listings. Both orders are scans of keys, so a page token is the last key
// examined, and writes in between move nothing.
#include <algorithm>
#include <optional>
#include <utility>

#include "kvserver/registry/document_registry_impl.h"
#include "kvserver/registry/listing/page_token.h"
#include "kvserver/registry/rows/document_keys.h"
#include "kvserver/registry/rows/document_record.h"

namespace quire::kvserver {
namespace {

/// Most work of one call, in names that it looks at. Reading a document is the work of several.
constexpr size_t kMostWork = 160'000;
constexpr size_t kWorkOfReading = 8;
/// Most rows that are read at a time.
constexpr size_t kMostRows = 1000;
/// Tags that an error names.
constexpr size_t kMostNamedTags = 20;

}  // namespace

/// Constants of one call, and what its entries have in common with their neighbours.
struct DocumentRegistryImpl::Listing {
  std::string_view tenant;
  std::string_view collection;
  Order order = Order::kName;
  DocumentFilter filter;
  bool all_states = false;
  size_t limit = 0;

  mutable size_t work_left = kMostWork;
  /// Settings of the last collection.
  mutable std::optional<std::string> settings_of;
  mutable CollectionSettings settings;
  /// Alias of the last name.
  mutable std::optional<DocumentName> latest_of;
  mutable LatestVersion latest;
};

Status DocumentRegistryImpl::CheckTagsKnown(std::string_view tenant,
                                            const DocumentFilter& filter) const {
  for (const FilterComparison* tag : filter.Tags()) {
    if (tags_.Has(tenant, tag->key())) continue;
    std::string known;
    for (const std::string& key : tags_.Keys(tenant, kMostNamedTags)) {
      known += (known.empty() ? "" : ", ") + key;
    }
    return FilterError(tag->position(), "'", tag->key(), "' is no field, and no document has such ",
                       "a tag; fields: ", FilterComparison::KnownFields(),
                       known.empty() ? "; there are no tags" : "; tags: ", known);
  }
  return OkStatus();
}

StatusOr<DocumentRegistry::ListResult> DocumentRegistryImpl::List(std::string_view tenant,
                                                                  const ListQuery& query) {
  QUIRE_RETURN_IF_ERROR(store_->CheckTenant(tenant));
  if (!query.collection.empty()) QUIRE_RETURN_IF_ERROR(CheckCollection(query.collection));
  QUIRE_ASSIGN_OR_RETURN(const uint32_t limit, CheckPageSize(query.page_size));
  Listing listing{.tenant = tenant,
                  .collection = query.collection,
                  .order = query.order,
                  .filter = {},
                  .limit = limit};
  QUIRE_ASSIGN_OR_RETURN(listing.filter, DocumentFilter::Parse(query.filter));
  QUIRE_RETURN_IF_ERROR(CheckTagsKnown(tenant, listing.filter));
  listing.all_states = listing.filter.names_state();
  const std::string prefix = query.order == Order::kNewest ? CreatedPrefix(tenant)
                             : query.collection.empty()
                                 ? DocumentsPrefix(tenant)
                                 : CollectionPrefix(tenant, query.collection);
  QUIRE_ASSIGN_OR_RETURN(std::string after, DecodePageToken(query.page_token, prefix));
  ListResult result;
  // More rows each time: a name that is looked for is behind many that are not.
  for (size_t rows = limit;; rows = std::min(2 * rows, std::max<size_t>(limit, kMostRows))) {
    // One more than wanted, to know whether another page follows.
    const auto wanted = static_cast<uint32_t>(std::min(rows, listing.work_left));
    QUIRE_ASSIGN_OR_RETURN(const std::vector<MetadataEntry> entries,
                           metadata_->Scan(prefix, after, wanted + 1));
    const auto some = std::span(entries).first(std::min<size_t>(entries.size(), wanted));
    QUIRE_ASSIGN_OR_RETURN(const size_t examined, AppendMatching(listing, some, &result.documents));
    if (examined == entries.size()) return result;
    after = entries[examined - 1].key;
    if (result.documents.size() < limit && listing.work_left > 0) continue;
    result.next_page_token = EncodePageToken(after);
    return result;
  }
}

StatusOr<size_t> DocumentRegistryImpl::AppendMatching(const Listing& listing,
                                                      std::span<const MetadataEntry> entries,
                                                      std::vector<Document>* documents) {
  size_t examined = 0;
  for (; examined < entries.size() && documents->size() < listing.limit; ++examined) {
    if (listing.work_left == 0) break;
    --listing.work_left;
    const MetadataEntry& entry = entries[examined];
    const auto name = ParseDocumentName(entry.key);
    if (!name) return DataLoss("the registry holds a malformed key; restore it from a backup");
    if (!listing.collection.empty() && name->collection != listing.collection) continue;
    if (!listing.filter.MayMatch(*name)) continue;
    listing.work_left -= std::min(listing.work_left, kWorkOfReading);
    std::string row = entry.value;
    if (listing.order == Order::kNewest) {
      StatusOr<std::string> read = metadata_->Get(DocumentKey(listing.tenant, *name));
      if (IsNotFound(read.status())) continue;  // Deleted meanwhile.
      QUIRE_ASSIGN_OR_RETURN(row, std::move(read));
    }
    QUIRE_ASSIGN_OR_RETURN(Document document, DecodeDocument(*name, row));
    if (listing.settings_of != name->collection) {
      QUIRE_ASSIGN_OR_RETURN(listing.settings, collections_.Get(listing.tenant, name->collection));
      listing.settings_of = name->collection;
    }
    document.expires_unix_micros = ExpiryIn(listing.settings, document);
    if (HasExpired(document)) document.state = DocumentState::kExpired;
    if (document.state != DocumentState::kReady && !listing.all_states) continue;
    const DocumentName any_version{name->collection, name->name, 0};
    if (listing.latest_of != any_version) {
      QUIRE_ASSIGN_OR_RETURN(listing.latest, ReadLatest(listing.tenant, *name));
      listing.latest_of = any_version;
    }
    Complete(listing.tenant, listing.latest.latest, &document);
    if (listing.filter.Matches(document)) documents->push_back(std::move(document));
  }
  return examined;
}

}  // namespace quire::kvserver
