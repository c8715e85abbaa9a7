// SPDX-License-Identifier: Apache-2.0
//
// DocumentRegistry: tenant / collection / name / version -> sealed chain, kept in a MetadataStore
// (RocksDB on one machine). It counts the documents that refer to each segment. Deleting a document
// therefore deletes exactly the segments that no other document needs.
//
// A document expires when its time to live, its own or else its collection's, has passed since its
// registration. From then on it is NOT_FOUND, in no list, and its version can be registered again.
// RemoveExpired deletes it as Delete does. Thread-safety: all methods may be called concurrently.
#ifndef QUIRE_KVSERVER_REGISTRY_DOCUMENT_REGISTRY_H_
#define QUIRE_KVSERVER_REGISTRY_DOCUMENT_REGISTRY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/observe/metrics.h"
#include "kvserver/registry/collection_settings.h"
#include "kvserver/store/metadata/metadata_store.h"
#include "kvserver/store/page_store.h"
#include "quire/clock.h"
#include "quire/documents.h"
#include "quire/key.h"
#include "quire/status.h"

namespace quire::kvserver {

/// A collection as the server treats it.
struct CollectionState {
  std::string name;
  CodecParams codec;
  bool codec_is_default = true;         ///< The collection has no codec of its own.
  std::optional<uint64_t> ttl_seconds;  ///< Unset: its documents never expire.
};

class DocumentRegistry {
 public:
  /// Finishes interrupted deletions. `store`, `metadata` and `clock` outlive the registry.
  /// `default_codec` applies to collections without a codec.
  static StatusOr<std::unique_ptr<DocumentRegistry>> Open(PageStore* store, MetadataStore* metadata,
                                                          Clock* clock,
                                                          const CodecParams& default_codec = {});
  virtual ~DocumentRegistry() = default;

  struct RegisterResult {
    Document document;
    bool existed = false;
  };
  /// Names the sealed chain that ends with `chain_tip`. Version 0 takes the next version. An
  /// existing version is ALREADY_EXISTS, unless it names the same chain; it is unchanged then,
  /// including its time to live. `ttl_seconds` is the document's own, 1..kMaxTtlSeconds. Durable on
  /// return. The segments are as durable as their puts were. NOT_FOUND when one is lost already.
  virtual StatusOr<RegisterResult> Register(std::string_view tenant, const DocumentName& name,
                                            const SegmentKey& chain_tip,
                                            std::string_view content_hash,
                                            std::optional<uint64_t> ttl_seconds = {}) = 0;
  /// Returns a document. Version 0 is the latest one. NOT_FOUND names the document.
  virtual StatusOr<Document> Get(std::string_view tenant, const DocumentName& name) = 0;

  struct ListResult {
    std::vector<Document> documents;
    std::string next_page_token;
  };
  /// Lists documents in order of collection, name, version. An empty `collection` stands for
  /// all of them. `page_size` 1..1000, 100 when 0; `page_token` from the previous page, or empty.
  virtual StatusOr<ListResult> List(std::string_view tenant, std::string_view collection,
                                    uint32_t page_size, std::string_view page_token) = 0;

  struct DeleteResult {
    uint32_t num_documents = 0;
    uint32_t num_segments = 0;
  };
  /// Deletes one version, or all when version is 0. Unless `keep_segments`, also deletes every
  /// segment that no other document refers to. Held ones are deleted with their last hold, and are
  /// not counted. NOT_FOUND when there is no such document.
  virtual StatusOr<DeleteResult> Delete(std::string_view tenant, const DocumentName& name,
                                        bool keep_segments) = 0;

  struct PinResult {
    Document document;
    bool was_pinned = false;
  };
  /// Keeps the segments of a document in DRAM until it is unpinned, deleted or expired, also over a
  /// restart. Version 0 is the latest one. Repeated pins count once. Errors as Get and
  /// PageStore::PinSegments; the document is not newly pinned then.
  virtual StatusOr<PinResult> Pin(std::string_view tenant, const DocumentName& name) = 0;
  /// Releases the pin, if there is one.
  virtual StatusOr<PinResult> Unpin(std::string_view tenant, const DocumentName& name) = 0;

  struct RestoredPins {
    uint32_t restored = 0;
    uint32_t failed = 0;
    Status first_failure;
  };
  /// Brings documents pinned at open to DRAM, until `deadline`, at least one of them. A document
  /// that does not fit or cannot be read stays pinned, and is retried a minute later.
  virtual RestoredPins RestorePins(TimePoint deadline) = 0;

  struct ExpiryResult {
    uint32_t num_documents = 0;
    uint32_t num_segments = 0;
  };
  /// Deletes every expired document of all tenants. A failed deletion is retried a minute later.
  /// Returns the first error.
  virtual StatusOr<ExpiryResult> RemoveExpired() = 0;

  /// Returns settings; the server's defaults for a collection that was never set.
  virtual StatusOr<CollectionState> GetCollection(std::string_view tenant,
                                                  std::string_view collection) = 0;
  /// Changes settings durably. A codec applies to later puts. A time to live also applies to
  /// present documents, from their creation. A collection back at all defaults is forgotten.
  /// INVALID_ARGUMENT for a time to live out of range; RESOURCE_EXHAUSTED over
  /// CollectionTable::kMaxPerTenant collections.
  virtual StatusOr<CollectionState> SetCollection(std::string_view tenant,
                                                  std::string_view collection,
                                                  const SettingsChange& change) = 0;
  struct ListCollectionsResult {
    std::vector<CollectionState> collections;
    std::string next_page_token;
  };
  /// Lists collections with their own settings, in order of names. Parameters as List.
  virtual StatusOr<ListCollectionsResult> ListCollections(std::string_view tenant,
                                                          uint32_t page_size,
                                                          std::string_view page_token) = 0;
  /// Codec of puts into `collection`; the server's default when `collection` is empty.
  virtual StatusOr<CodecParams> CodecOf(std::string_view tenant, std::string_view collection) = 0;

  /// FAILED_PRECONDITION naming a document that refers to `key`; OK when there is none.
  virtual Status CheckUnreferenced(std::string_view tenant, const SegmentKey& key) = 0;

  /// Removes a segment without documents, now or when its last hold ends. Errors as
  /// CheckUnreferenced and PageStore::DeleteSegment. No document can start to refer to it
  /// meanwhile.
  virtual Status DeleteSegment(std::string_view tenant, const SegmentKey& key) = 0;

  /// documents_registered, documents_deleted, documents_expired, documents_pinned, expiry_failures,
  /// collections, orphans_deleted, orphans_pending.
  virtual void VisitMetrics(MetricsVisitor& visit) const = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_REGISTRY_DOCUMENT_REGISTRY_H_
