// SPDX-License-Identifier: Apache-2.0
//
// DocumentRegistry: tenant / collection / name / version -> sealed chain, kept in the
// MetadataStore of its server. It counts the documents that refer to each segment. Deleting a
// document therefore deletes exactly the segments that no other document needs.
//
// A document is READY, or not there yet: an ingest reserves its version and ends by registering it,
// or leaves it FAILED for a day. Only READY ones are found; a listing shows the others on request.
// Version 0 is the alias `latest`, a READY version. Every change is an event of the tenant's log,
// committed with it (event_log.h).
//
// With a DocumentAgreement, names, versions and the alias are those of all servers of a cluster. A
// change is agreed first, and the rows follow. Align heals rows that a crash or another server left
// behind. Calls that change names are UNAVAILABLE while the agreement is away. Events tell of
// changes by this server's callers. A CollectionAgreement decides likewise on settings; KeepUp
// takes those of other servers.
//
// A document expires when its time to live, its own or else its collection's, has passed since its
// registration. From then on it is NOT_FOUND, in no list, and its version can be registered again.
// RemoveExpired deletes it as Delete does. Thread-safety: all methods may be called concurrently.
#ifndef QUIRE_KVSERVER_REGISTRY_DOCUMENT_REGISTRY_H_
#define QUIRE_KVSERVER_REGISTRY_DOCUMENT_REGISTRY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/observe/metrics.h"
#include "common/documents/collection_agreement.h"
#include "common/documents/document_agreement.h"
#include "kvserver/registry/collections/collection_settings.h"
#include "kvserver/registry/events/event_log.h"
#include "kvserver/store/metadata/metadata_store.h"
#include "kvserver/store/page_store.h"
#include "quire/clock.h"
#include "quire/document_events.h"
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
  static constexpr Duration kIngestLease = std::chrono::seconds(30);

  /// Finishes interrupted deletions. `store`, `metadata` and `clock` outlive the registry.
  /// `default_codec` applies to collections without a codec. Both agreements outlive the registry
  /// too; null for a server by itself.
  static StatusOr<std::unique_ptr<DocumentRegistry>> Open(PageStore* store, MetadataStore* metadata,
                                                          Clock* clock,
                                                          const CodecParams& default_codec = {},
                                                          Duration ingest_lease = kIngestLease,
                                                          DocumentAgreement* agreement = nullptr,
                                                          CollectionAgreement* settings = nullptr);
  virtual ~DocumentRegistry() = default;

  /// Facts about a chain that becomes a document.
  struct Registration {
    SegmentKey chain_tip;
    std::string_view content_hash = {};        ///< 0 or 32 bytes.
    std::optional<uint64_t> ttl_seconds = {};  ///< The document's own, 1..kMaxTtlSeconds.
    std::string_view source = {};
    Tags tags = {};
    bool keep_latest = false;  ///< Leave the alias where it is, if it is anywhere.
    /// The ingest that ends; the name has its version. The arguments of BeginIngest stand. 0: none.
    uint64_t ingest_id = 0;
  };
  struct RegisterResult {
    Document document;
    bool existed = false;
  };
  /// Names the sealed chain that ends with `chain_tip`. Version 0 takes the next version. An
  /// existing version is ALREADY_EXISTS, unless it names the same chain; it is unchanged then,
  /// including its time to live. Durable on return. The segments are as durable as their puts were.
  /// FAILED_PRECONDITION for a version of another ingest. NOT_FOUND when a segment is lost already,
  /// and for an ingest that has ended.
  virtual StatusOr<RegisterResult> Register(std::string_view tenant, const DocumentName& name,
                                            const Registration& registration) = 0;
  StatusOr<RegisterResult> Register(std::string_view tenant, const DocumentName& name,
                                    const SegmentKey& chain_tip, std::string_view content_hash,
                                    std::optional<uint64_t> ttl_seconds = {}) {
    return Register(
        tenant, name,
        {.chain_tip = chain_tip, .content_hash = content_hash, .ttl_seconds = ttl_seconds});
  }

  /// Facts about a document before it is computed.
  struct IngestPlan {
    std::string_view content_hash = {};
    std::string_view source = {};
    Tags tags = {};
    std::optional<uint64_t> ttl_seconds = {};
  };
  struct BegunIngest {
    Document document;
    bool unchanged = false;  ///< The latest version has the content hash; nothing is reserved.
    uint64_t id = 0;         ///< 0 when unchanged.
  };
  /// Reserves the next version of `name`, whose version is 0, under a lease. RESOURCE_EXHAUSTED
  /// over IngestLeases::kMaxPerTenant.
  virtual StatusOr<BegunIngest> BeginIngest(std::string_view tenant, const DocumentName& name,
                                            const IngestPlan& plan) = 0;
  /// Ends an ingest as FAILED. NOT_FOUND when it has ended.
  virtual StatusOr<Document> FailIngest(std::string_view tenant, uint64_t ingest_id,
                                        std::string_view reason) = 0;
  /// Renews leases of ingests. Returns the ids that are gone, in order. Touches only memory.
  virtual std::vector<uint64_t> RenewIngests(std::string_view tenant,
                                             std::span<const uint64_t> ids) = 0;
  virtual Duration ingest_lease() const = 0;
  /// Fails the ingests whose leases have ended. Returns how many.
  virtual StatusOr<uint32_t> FailAbandonedIngests() = 0;

  /// Returns a document. Version 0 is the latest one. NOT_FOUND names the document.
  /// FAILED_PRECONDITION when the agreed latest version is not held here.
  virtual StatusOr<Document> Get(std::string_view tenant, const DocumentName& name) = 0;

  struct ListResult {
    std::vector<Document> documents;
    std::string next_page_token;
  };
  enum class Order : uint8_t { kName, kNewest };
  struct ListQuery {
    std::string_view collection = {};  ///< Empty: all of them.
    std::string_view filter = {};      ///< As DocumentFilter::Parse.
    Order order = Order::kName;
    uint32_t page_size = 0;            ///< 1..1000; 100 when 0.
    std::string_view page_token = {};  ///< From the previous page, or empty.
  };
  /// Lists documents in order of collection, name, version, or the newest first. Without a filter
  /// about states, READY ones. A page may be short before the end. A filter with a tag that no
  /// document has is INVALID_ARGUMENT.
  virtual StatusOr<ListResult> List(std::string_view tenant, const ListQuery& query) = 0;
  StatusOr<ListResult> List(std::string_view tenant, std::string_view collection,
                            uint32_t page_size, std::string_view page_token) {
    return List(tenant,
                {.collection = collection, .page_size = page_size, .page_token = page_token});
  }

  struct Change {
    Tags set_tags = {};
    std::vector<std::string> remove_tags = {};
    /// Outer optional: it changes. Inner one: nullopt for the collection's.
    std::optional<std::optional<uint64_t>> ttl_seconds = {};
  };
  /// Changes tags and time to live of a READY document.
  virtual StatusOr<Document> Update(std::string_view tenant, const DocumentName& name,
                                    const Change& change) = 0;
  /// Moves the alias to a READY version.
  virtual StatusOr<Document> SetLatest(std::string_view tenant, const DocumentName& name) = 0;

  struct DeleteResult {
    uint32_t num_documents = 0;
    uint32_t num_segments = 0;
  };
  /// Deletes one version in any state, or all when version is 0. Unless `keep_segments`, also
  /// deletes every segment that no other document refers to. Held ones are deleted with their last
  /// hold, and are not counted. NOT_FOUND when there is no such document.
  virtual StatusOr<DeleteResult> Delete(std::string_view tenant, const DocumentName& name,
                                        bool keep_segments) = 0;
  /// Deletes likewise, because the source has changed: events are INVALIDATED.
  virtual StatusOr<DeleteResult> Invalidate(std::string_view tenant, const DocumentName& name) = 0;
  /// The same for all documents of a source, which is not empty.
  virtual StatusOr<DeleteResult> InvalidateSource(std::string_view tenant,
                                                  std::string_view source) = 0;

  // Replicas of a cluster's documents. None of these asks the agreement or writes events.

  /// Makes the versions held of a name what was agreed: tags, time to live and alias. Deletes READY
  /// versions that are not agreed. Returns agreed ones that are not held. An older state than the
  /// one that is known changes nothing, and returns nothing.
  virtual StatusOr<std::vector<Document>> Align(std::string_view tenant, const DocumentName& name,
                                                const AgreedName& agreed) = 0;
  /// Takes a version exactly as agreed; its chain is stored. NOT_FOUND when a segment is lost or
  /// missing. FAILED_PRECONDITION when `agreed` does not have the version with this chain, or a
  /// newer state is known: read what is agreed again.
  virtual Status Adopt(std::string_view tenant, const DocumentName& name,
                       const AgreedName& agreed) = 0;
  /// Forgets a version here only. Segments that no other document names are deleted. NOT_FOUND when
  /// it is not held.
  virtual Status Release(std::string_view tenant, const DocumentName& name) = 0;
  struct HeldNamesPage {
    std::vector<std::pair<std::string, DocumentName>> names;  ///< Tenant and name, version 0.
    std::string next;  ///< Argument for the next page; empty after the last one.
  };
  /// Names of all tenants with a version here, in any state. A page has at most `limit`.
  virtual StatusOr<HeldNamesPage> HeldNames(std::string_view after, uint32_t limit) = 0;

  struct WarmResult {
    Document document;
    uint32_t next_segment = 0;
    uint32_t num_segments = 0;
    uint64_t bytes = 0;
    uint32_t not_fitting = 0;
    uint32_t in_dram = 0;  ///< Segments of the whole document.
  };
  /// Brings segments from `first_segment` on to DRAM, at least one, up to `max_bytes`, without a
  /// pin. OUT_OF_RANGE for a segment that the document does not have.
  virtual StatusOr<WarmResult> Warm(std::string_view tenant, const DocumentName& name,
                                    uint32_t first_segment, uint64_t max_bytes) = 0;

  /// Events of the tenant; see EventLog::Watch.
  virtual StatusOr<DocumentEvents> Watch(const EventLog::Query& query, TimePoint deadline,
                                         const std::function<bool()>& stop) = 0;

  /// Stores bytes beside a READY document under a name. Replaces a version that is not newer.
  /// FAILED_PRECONDITION when a newer one is there. `segments` were made from the document. They go
  /// with it, where they are the tenant's and no other document names them.
  virtual StatusOr<Extra> PutExtra(std::string_view tenant, const DocumentName& document,
                                   std::string_view name, uint32_t version, std::string_view bytes,
                                   std::span<const SegmentKey> segments) = 0;
  struct ExtraValue {
    Extra extra;
    std::string bytes;                      ///< Verified.
    std::vector<SegmentKey> segments = {};  ///< Those that go with it.
  };
  virtual StatusOr<ExtraValue> GetExtra(std::string_view tenant, const DocumentName& document,
                                        std::string_view name) = 0;
  virtual StatusOr<std::vector<Extra>> ListExtras(std::string_view tenant,
                                                  const DocumentName& document) = 0;

  /// A session or a read opened the document. Touches only memory.
  virtual void NoteOpened(std::string_view tenant, const DocumentName& name, uint64_t tokens) = 0;
  /// An ingest found the chain up to `tip` stored, `tokens` long. Counts for one document with it.
  virtual void NoteReuse(std::string_view tenant, const SegmentKey& tip, uint64_t tokens) = 0;
  /// A read of the document returned `bytes`.
  virtual void NoteServed(std::string_view tenant, const DocumentName& name, uint64_t bytes) = 0;
  /// Writes the statistics that have changed, and trims the log of events. A member of a cluster
  /// also publishes documents that the cluster does not know, and takes settings of collections
  /// from other servers. Others would tell the cluster what it has not asked for. Each when it is
  /// time.
  virtual Status KeepUp(bool is_member) = 0;

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
  /// collections, orphans_deleted, orphans_pending, ingests, ingests_failed, document_events,
  /// document_watchers, documents_adopted, documents_released, documents_withdrawn.
  virtual void VisitMetrics(MetricsVisitor& visit) const = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_REGISTRY_DOCUMENT_REGISTRY_H_
