// SPDX-License-Identifier: Apache-2.0
//
// DocumentRegistry: tenant / collection / name / version -> sealed chain, kept in a MetadataStore
// (RocksDB on one machine). It counts how many documents refer to each segment, so that deleting a
// document can delete exactly the segments that nobody else needs.
//
// A document expires when its time to live, its own or else its collection's, has passed since it
// was registered. From then on it is NOT_FOUND, in no list, and its version can be registered anew;
// RemoveExpired deletes it as Delete does.
// Thread-safety: all methods may be called concurrently.
#ifndef QUIRE_KVSERVER_REGISTRY_DOCUMENT_REGISTRY_H_
#define QUIRE_KVSERVER_REGISTRY_DOCUMENT_REGISTRY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/metrics.h"
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
  bool codec_is_default = true;         ///< It has none of its own.
  std::optional<uint64_t> ttl_seconds;  ///< nullopt: its documents live for ever.
};

class DocumentRegistry {
 public:
  /// Finishes deletions that a crash interrupted. `store`, `metadata` and `clock` outlive the
  /// registry. `default_codec` is that of collections that have none of their own.
  static StatusOr<std::unique_ptr<DocumentRegistry>> Open(PageStore* store, MetadataStore* metadata,
                                                          Clock* clock,
                                                          const CodecParams& default_codec = {});
  virtual ~DocumentRegistry() = default;

  struct RegisterResult {
    Document document;
    bool existed = false;
  };
  /// Names the sealed chain that ends with `chain_tip`. Version 0 takes the next version; a given
  /// version that exists is ALREADY_EXISTS unless it names the same chain; nothing is changed then,
  /// its time to live neither. `ttl_seconds` is the document's own, 1..kMaxTtlSeconds.
  virtual StatusOr<RegisterResult> Register(std::string_view tenant, const DocumentName& name,
                                            const SegmentKey& chain_tip,
                                            std::string_view content_hash,
                                            std::optional<uint64_t> ttl_seconds = {}) = 0;
  /// Version 0 is the latest one. NOT_FOUND names the document.
  virtual StatusOr<Document> Get(std::string_view tenant, const DocumentName& name) = 0;

  struct ListResult {
    std::vector<Document> documents;
    std::string next_page_token;
  };
  /// Documents in order of collection, name, version; of all collections when `collection` is
  /// empty. `page_size` 1..1000, 100 when 0; `page_token` from the previous page, or empty.
  virtual StatusOr<ListResult> List(std::string_view tenant, std::string_view collection,
                                    uint32_t page_size, std::string_view page_token) = 0;

  struct DeleteResult {
    uint32_t num_documents = 0;
    uint32_t num_segments = 0;
  };
  /// Deletes one version, or all when version is 0, and, unless `keep_segments`, every segment of
  /// them that no other document refers to; those that somebody holds go with their last holder,
  /// and are not counted. NOT_FOUND when there is no such document.
  virtual StatusOr<DeleteResult> Delete(std::string_view tenant, const DocumentName& name,
                                        bool keep_segments) = 0;

  struct PinResult {
    Document document;
    bool was_pinned = false;
  };
  /// Keeps the segments of a document in DRAM until it is unpinned, deleted or expired, also over
  /// a restart. Version 0 is the latest one. A document is pinned once, however often this is
  /// called. Errors as Get and PageStore::PinSegments; a document that was not pinned before is not
  /// pinned then.
  virtual StatusOr<PinResult> Pin(std::string_view tenant, const DocumentName& name) = 0;
  /// Takes the pin back; a document that is not pinned stays as it is.
  virtual StatusOr<PinResult> Unpin(std::string_view tenant, const DocumentName& name) = 0;

  struct RestoredPins {
    uint32_t restored = 0;
    uint32_t failed = 0;
    Status first_failure;
  };
  /// Brings documents to DRAM that were pinned when the registry was opened, until `deadline`, the
  /// first of them in any case. One that does not fit or cannot be read stays pinned, waits, and is
  /// tried again a minute later.
  virtual RestoredPins RestorePins(TimePoint deadline) = 0;

  struct ExpiryResult {
    uint32_t num_documents = 0;
    uint32_t num_segments = 0;
  };
  /// Deletes every document that has expired by now, of all tenants. What cannot be deleted is
  /// tried again a minute later; the first such error is returned.
  virtual StatusOr<ExpiryResult> RemoveExpired() = 0;

  /// A collection that was never set has the server's defaults.
  virtual StatusOr<CollectionState> GetCollection(std::string_view tenant,
                                                  std::string_view collection) = 0;
  /// Durable when it returns. A codec holds for what is put from now on, a time to live also for
  /// documents already there, counted from their creation. A collection that is back at all
  /// defaults is forgotten. INVALID_ARGUMENT for a time to live out of range; RESOURCE_EXHAUSTED
  /// over CollectionTable::kMaxPerTenant collections.
  virtual StatusOr<CollectionState> SetCollection(std::string_view tenant,
                                                  std::string_view collection,
                                                  const SettingsChange& change) = 0;
  struct ListCollectionsResult {
    std::vector<CollectionState> collections;
    std::string next_page_token;
  };
  /// Collections with settings of their own, in order of names; parameters as in List.
  virtual StatusOr<ListCollectionsResult> ListCollections(std::string_view tenant,
                                                          uint32_t page_size,
                                                          std::string_view page_token) = 0;
  /// Codec of what is put into `collection`; the server's default when `collection` is empty.
  virtual StatusOr<CodecParams> CodecOf(std::string_view tenant, std::string_view collection) = 0;

  /// OK when no document refers to `key`; FAILED_PRECONDITION naming one that does.
  virtual Status CheckUnreferenced(std::string_view tenant, const SegmentKey& key) = 0;

  /// Removes a segment that no document refers to, now or when nobody holds it any more; errors as
  /// CheckUnreferenced and PageStore::DeleteSegment. No document can come to refer to it meanwhile.
  virtual Status DeleteSegment(std::string_view tenant, const SegmentKey& key) = 0;

  /// documents_registered, documents_deleted, documents_expired, documents_pinned, expiry_failures,
  /// collections, orphans_deleted, orphans_pending.
  virtual void VisitMetrics(MetricsVisitor& visit) const = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_REGISTRY_DOCUMENT_REGISTRY_H_
