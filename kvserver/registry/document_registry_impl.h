// SPDX-License-Identifier: Apache-2.0
//
// DocumentRegistryImpl: the registry over any MetadataStore. References are entries, one for each
// document and segment, rather than counts. Repeated writes change nothing, and one prefix scan
// finds all users of a segment.
//
// A deletion has these steps: It marks the documents' orphans for deletion. One batch removes
// the documents and notes the orphans as pending. The names are removed, then the orphans that are
// not held, then their notes. A crash in between leaves nothing behind for ever. A note has one
// incarnation; a segment that is put again meanwhile has another, which stays. Documents that
// expire together are deleted in batches, with other writes between them.
//
// Every read computes a document's expiry from its record and its collection's settings. The index
// of expiries, rebuilt at open, only tells RemoveExpired where to look.
//
// Locks: `write_mutex_` serialises register, delete, expiry, pins and settings, so that no document
// starts to refer to a segment during its removal. Get and List do not take it. It is taken before
// any lock of the store. The agreement is asked without it, since etcd may be slow. The rows of a
// name know the revision of their state, so a late answer does not set them back.
#ifndef QUIRE_KVSERVER_REGISTRY_DOCUMENT_REGISTRY_IMPL_H_
#define QUIRE_KVSERVER_REGISTRY_DOCUMENT_REGISTRY_IMPL_H_

#include <atomic>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/base/threads/mutex.h"
#include "kvserver/registry/agreement/gone_names.h"
#include "kvserver/registry/collections/collection_table.h"
#include "kvserver/registry/document_registry.h"
#include "kvserver/registry/dram/pinned_names.h"
#include "kvserver/registry/events/event_log.h"
#include "kvserver/registry/expiry/expiry_index.h"
#include "kvserver/registry/filter/document_filter.h"
#include "kvserver/registry/ingest/ingest_leases.h"
#include "kvserver/registry/rows/document_keys.h"
#include "kvserver/registry/rows/latest_version.h"
#include "kvserver/registry/tag_census.h"
#include "kvserver/registry/use/statistics_table.h"

namespace quire::kvserver {

class DocumentRegistryImpl final : public DocumentRegistry {
 public:
  DocumentRegistryImpl(PageStore* store, MetadataStore* metadata, Clock* clock,
                       const CodecParams& default_codec, Duration ingest_lease,
                       DocumentAgreement* agreement, CollectionAgreement* settings)
      : store_(store),
        metadata_(metadata),
        clock_(clock),
        agreement_(agreement),
        settings_(settings),
        default_codec_(default_codec),
        collections_(metadata),
        events_(metadata, clock),
        statistics_(metadata, clock),
        ingests_(clock, ingest_lease) {}
  ~DocumentRegistryImpl() override;

  using DocumentRegistry::List;
  using DocumentRegistry::Register;
  StatusOr<RegisterResult> Register(std::string_view tenant, const DocumentName& name,
                                    const Registration& registration) override;
  StatusOr<BegunIngest> BeginIngest(std::string_view tenant, const DocumentName& name,
                                    const IngestPlan& plan) override;
  StatusOr<Document> FailIngest(std::string_view tenant, uint64_t ingest_id,
                                std::string_view reason) override;
  std::vector<uint64_t> RenewIngests(std::string_view tenant,
                                     std::span<const uint64_t> ids) override;
  Duration ingest_lease() const override { return ingests_.lease(); }
  StatusOr<uint32_t> FailAbandonedIngests() override;
  StatusOr<Document> Get(std::string_view tenant, const DocumentName& name) override;
  StatusOr<ListResult> List(std::string_view tenant, const ListQuery& query) override;
  StatusOr<Document> Update(std::string_view tenant, const DocumentName& name,
                            const Change& change) override;
  StatusOr<Document> SetLatest(std::string_view tenant, const DocumentName& name) override;
  StatusOr<DeleteResult> Invalidate(std::string_view tenant, const DocumentName& name) override;
  StatusOr<DeleteResult> InvalidateSource(std::string_view tenant,
                                          std::string_view source) override;
  StatusOr<std::vector<Document>> Align(std::string_view tenant, const DocumentName& name,
                                        const AgreedName& agreed) override;
  Status Adopt(std::string_view tenant, const DocumentName& name,
               const AgreedName& agreed) override;
  Status Release(std::string_view tenant, const DocumentName& name) override;
  StatusOr<HeldNamesPage> HeldNames(std::string_view after, uint32_t limit) override;
  StatusOr<WarmResult> Warm(std::string_view tenant, const DocumentName& name,
                            uint32_t first_segment, uint64_t max_bytes) override;
  StatusOr<DocumentEvents> Watch(const EventLog::Query& query, TimePoint deadline,
                                 const std::function<bool()>& stop) override;
  StatusOr<Extra> PutExtra(std::string_view tenant, const DocumentName& document,
                           std::string_view name, uint32_t version, std::string_view bytes,
                           std::span<const SegmentKey> segments) override;
  StatusOr<ExtraValue> GetExtra(std::string_view tenant, const DocumentName& document,
                                std::string_view name) override;
  StatusOr<std::vector<Extra>> ListExtras(std::string_view tenant,
                                          const DocumentName& document) override;
  void NoteOpened(std::string_view tenant, const DocumentName& name, uint64_t tokens) override;
  void NoteReuse(std::string_view tenant, const SegmentKey& tip, uint64_t tokens) override;
  void NoteServed(std::string_view tenant, const DocumentName& name, uint64_t bytes) override;
  Status KeepUp(bool is_member) override;
  StatusOr<DeleteResult> Delete(std::string_view tenant, const DocumentName& name,
                                bool keep_segments) override;
  StatusOr<PinResult> Pin(std::string_view tenant, const DocumentName& name) override;
  StatusOr<PinResult> Unpin(std::string_view tenant, const DocumentName& name) override;
  RestoredPins RestorePins(TimePoint deadline) override;
  StatusOr<ExpiryResult> RemoveExpired() override;
  StatusOr<CollectionState> GetCollection(std::string_view tenant,
                                          std::string_view collection) override;
  StatusOr<CollectionState> SetCollection(std::string_view tenant, std::string_view collection,
                                          const SettingsChange& change) override;
  StatusOr<ListCollectionsResult> ListCollections(std::string_view tenant, uint32_t page_size,
                                                  std::string_view page_token) override;
  StatusOr<CodecParams> CodecOf(std::string_view tenant, std::string_view collection) override;
  Status CheckUnreferenced(std::string_view tenant, const SegmentKey& key) override;
  Status DeleteSegment(std::string_view tenant, const SegmentKey& key) override;
  void VisitMetrics(MetricsVisitor& visit) const override;

  /// Adds the rows that documents of older servers lack.
  [[nodiscard]] Status Upgrade();
  /// Reads the log's ends, the statistics and the ingests, which get a new lease each.
  [[nodiscard]] Status LoadRows() QUIRE_EXCLUDES(write_mutex_);
  /// Reads collections and documents into the index of expiries, and counts tags.
  [[nodiscard]] Status BuildIndex() QUIRE_EXCLUDES(write_mutex_);
  /// Restores the store's counts of referring documents.
  [[nodiscard]] Status RestoreNames();
  /// Reads the pins. RestorePins brings the documents to DRAM.
  [[nodiscard]] Status LoadPins() QUIRE_EXCLUDES(write_mutex_);
  /// Removes the pending orphans, a slice at a time. Returns the number removed. The others stay
  /// noted.
  StatusOr<uint32_t> RemoveOrphans() QUIRE_EXCLUDES(write_mutex_);

 private:
  /// Documents to delete in one commit.
  struct Deletion {
    struct Entry {
      TenantDocument document;
      std::vector<SegmentKey> segments;
      std::optional<Document> record = {};   ///< Unset when it cannot be read.
      std::vector<SegmentKey> derived = {};  ///< Segments that its extras name.
    };
    static constexpr size_t kMostDocuments = 256;
    /// Largest batch. A longer document has a batch of its own.
    static constexpr size_t kMostSegments = 1024;

    std::vector<Entry> documents;
    size_t num_segments = 0;
    DocumentEventKind why = DocumentEventKind::kDeleted;
    bool has_events = true;
    /// By LatestKey: names after the deletion. Empty without an agreement.
    std::map<std::string, AgreedName> agreed = {};
    bool IsFull() const {
      return documents.size() >= kMostDocuments || num_segments >= kMostSegments;
    }
  };
  /// Entries of PendingDeleteKey.
  using Notes = std::vector<MetadataEntry>;

  StatusOr<std::vector<DocumentName>> Versions(std::string_view tenant, const DocumentName& name);
  /// Reads a document, expired or not.
  StatusOr<Document> ReadDocument(std::string_view tenant, const DocumentName& name);
  bool HasExpired(const Document& document) const;
  /// Expiry of a document in a collection with these settings; 0 for never.
  static int64_t ExpiryIn(const CollectionSettings& settings, const Document& document);
  StatusOr<int64_t> ExpiryOfDocument(std::string_view tenant, const Document& document);
  /// Reads a READY document that has not expired.
  StatusOr<Document> ReadReady(std::string_view tenant, const DocumentName& name);
  /// The highest READY version below `below`; nullopt when there is none.
  StatusOr<std::optional<Document>> HighestReady(std::string_view tenant, const DocumentName& name,
                                                 const std::set<uint64_t>& without = {});
  /// Sets what the record does not say.
  void Complete(std::string_view tenant, uint64_t latest, Document* document);
  StatusOr<Document> Completed(std::string_view tenant, Document document);
  bool IsPinned(std::string_view tenant, const DocumentName& name) const;
  /// FAILED_PRECONDITION when the agreed latest version is not held here.
  Status CheckHeld(std::string_view tenant, const DocumentName& latest);

  StatusOr<LatestVersion> ReadLatest(std::string_view tenant, const DocumentName& name);
  /// Adds the row and the event of the alias.
  void MoveLatest(std::string_view tenant, const DocumentName& name, const LatestVersion& from,
                  const LatestVersion& to, MetadataBatch* batch, std::vector<NewEvent>* events);
  /// Moves the aliases of the deletion's names that lose their version.
  Status MoveLatestOff(const Deletion& deletion, MetadataBatch* batch,
                       std::vector<NewEvent>* events) QUIRE_REQUIRES(write_mutex_);
  /// The next free version.
  StatusOr<uint64_t> NextVersion(std::string_view tenant, const DocumentName& name);

  /// Examines entries of a listing and appends the documents that match, until `limit`. Returns
  /// the number of examined entries.
  struct Listing;
  StatusOr<size_t> AppendMatching(const Listing& listing, std::span<const MetadataEntry> entries,
                                  std::vector<Document>* documents);
  Status CheckTagsKnown(std::string_view tenant, const DocumentFilter& filter) const;

  /// The row of a name that was agreed, unless a newer state is known.
  static LatestVersion NewerOf(const LatestVersion& known, const AgreedName& agreed);
  /// Events of a change, to which a move of the alias adds one. nullopt: the change is silent.
  using Events = std::optional<std::vector<NewEvent>>;
  /// As Align, with events of another change.
  StatusOr<std::vector<Document>> AlignRows(std::string_view tenant, const DocumentName& name,
                                            const AgreedName& agreed, Events events)
      QUIRE_REQUIRES(write_mutex_);
  /// Versions of a name beside what was agreed.
  struct Alignment {
    const AgreedName& agreed;
    std::vector<Document> missing;             ///< Agreed and not held.
    std::vector<DocumentName> withdrawn = {};  ///< Held and not agreed.
    struct Changed {
      std::optional<Document> before;  ///< Unset when it cannot be read.
      Document after;
    };
    std::vector<Changed> changed = {};  ///< Held, and said of it is other than agreed.
    size_t num_kept = 0;                ///< Rows that stay.
  };
  Status CompareRow(std::string_view tenant, const DocumentName& version, Alignment* alignment)
      QUIRE_REQUIRES(write_mutex_);
  Status WriteAlignment(std::string_view tenant, const DocumentName& name,
                        const LatestVersion& from, const Alignment& alignment, Events events)
      QUIRE_REQUIRES(write_mutex_);
  /// Writes a READY document, whose version is in `agreed`, over whatever row its version has.
  Status Settle(std::string_view tenant, const Document& document, const Chain& chain,
                const AgreedName& agreed, Events events) QUIRE_REQUIRES(write_mutex_);
  /// The last segment of a version by its list of segments; nullopt when that cannot be read.
  std::optional<SegmentKey> TipOf(std::string_view tenant, const DocumentName& version);
  /// Reads what is agreed and aligns the rows.
  StatusOr<AgreedName> Refresh(std::string_view tenant, const DocumentName& name)
      QUIRE_EXCLUDES(write_mutex_);
  StatusOr<Document> UpdateAgreed(std::string_view tenant, const DocumentName& name,
                                  const Change& change) QUIRE_EXCLUDES(write_mutex_);
  /// True for a name with versions that the agreement does not know, as they were never agreed or
  /// are younger than a restored backup.
  bool IsUnknown(const LatestVersion& row) const;
  /// `is_forgotten`: it was agreed once.
  Status PublishHeld(std::string_view tenant, const Document& document, bool is_forgotten);
  /// Publishes the versions of a name that the agreement does not know.
  Status Introduce(std::string_view tenant, const DocumentName& name) QUIRE_EXCLUDES(write_mutex_);
  /// The same for the next names that are held, until all had their turn. A name that fails does
  /// not stop the others. Returns the first error.
  Status IntroduceSome() QUIRE_EXCLUDES(write_mutex_);
  /// Deletes documents in batches, each of this kind. Returns and counts what went.
  StatusOr<DeleteResult> DeleteRowsOf(std::string_view tenant,
                                      const std::vector<DocumentName>& versions,
                                      const Deletion& kind, bool keep_segments, Counter* counter)
      QUIRE_REQUIRES(write_mutex_);
  /// Versions of a name, or the one that is named, that were not gone before. Unreadable ones too.
  StatusOr<std::vector<DocumentName>> LiveVersions(std::string_view tenant,
                                                   const DocumentName& name);

  /// Checks what is said of a document.
  [[nodiscard]] static Status CheckSaid(std::string_view content_hash, std::string_view source,
                                        const Tags& tags, std::optional<uint64_t> ttl_seconds);
  /// Decides on the version for `name`. Removes an expired document in its place. Returns a live
  /// one with this chain.
  StatusOr<std::optional<Document>> ClaimVersion(std::string_view tenant,
                                                 const SegmentKey& chain_tip, DocumentName* name)
      QUIRE_REQUIRES(write_mutex_);
  /// The reserved row of an ingest, or the document that it has become, which names `chain_tip`.
  StatusOr<Document> FindIngest(std::string_view tenant, const DocumentName& name,
                                const Registration& registration) QUIRE_REQUIRES(write_mutex_);
  StatusOr<Document> MakeDocument(std::string_view tenant, const DocumentName& name,
                                  const Chain& chain);
  /// A chain on its way to a document.
  struct Candidate {
    HeldChain held;                         ///< Until the document names it.
    Document document = {};                 ///< Version 0: the next one.
    std::optional<Document> reserved = {};  ///< Row of the ingest that ends.
    std::optional<Document> stored = {};    ///< The document is there already.
  };
  StatusOr<Candidate> Prepare(std::string_view tenant, const DocumentName& name,
                              const Registration& registration) QUIRE_REQUIRES(write_mutex_);
  StatusOr<RegisterResult> RegisterAlone(std::string_view tenant, const DocumentName& name,
                                         const Registration& registration)
      QUIRE_EXCLUDES(write_mutex_);
  StatusOr<RegisterResult> RegisterAgreed(std::string_view tenant, const DocumentName& name,
                                          const Registration& registration)
      QUIRE_EXCLUDES(write_mutex_);
  /// Settles a published version at the newest state that is known. NOT_FOUND when others have
  /// deleted it meanwhile.
  Status SettlePublished(std::string_view tenant, const DocumentName& version,
                         const Candidate& candidate, AgreedName agreed)
      QUIRE_EXCLUDES(write_mutex_);
  /// Makes room for a version that has expired by what is agreed, whether it is held or not.
  Status WithdrawStale(std::string_view tenant, const DocumentName& version)
      QUIRE_EXCLUDES(write_mutex_);
  /// Withdraws a version from the agreement when its time is over. Returns its name after that;
  /// nullopt when the version stays, or is gone already.
  StatusOr<std::optional<AgreedName>> WithdrawExpired(std::string_view tenant,
                                                      const DocumentName& version)
      QUIRE_EXCLUDES(write_mutex_);
  /// Write, and all that follows from it in memory.
  Status WriteReady(std::string_view tenant, const Document& document, const Chain& chain,
                    const std::optional<Document>& reserved, const LatestVersion& to, Events events)
      QUIRE_REQUIRES(write_mutex_);
  /// Writes a READY document in place of `reserved`, if there is one, and the row of its name.
  Status Write(std::string_view tenant, const Document& document, const Chain& chain,
               const std::optional<Document>& reserved, const LatestVersion& to, Events events)
      QUIRE_REQUIRES(write_mutex_);
  StatusOr<BegunIngest> BeginAgreedIngest(std::string_view tenant, const DocumentName& name,
                                          const IngestPlan& plan) QUIRE_EXCLUDES(write_mutex_);
  /// The answer of BeginIngest that reserves nothing; nullopt when a version is to be reserved.
  StatusOr<std::optional<BegunIngest>> FindUnchanged(std::string_view tenant,
                                                     const DocumentName& name,
                                                     const IngestPlan& plan)
      QUIRE_REQUIRES(write_mutex_);
  /// Writes the rows of a reserved version; `to` is the row of its name.
  StatusOr<BegunIngest> ReserveVersion(std::string_view tenant, const DocumentName& version,
                                       const IngestPlan& plan, const LatestVersion& to)
      QUIRE_REQUIRES(write_mutex_);
  StatusOr<Document> Fail(std::string_view tenant, const DocumentName& name,
                          std::string_view reason) QUIRE_REQUIRES(write_mutex_);
  StatusOr<DeleteResult> DeleteAgreed(std::string_view tenant, const DocumentName& name,
                                      DocumentEventKind why, bool keep_segments)
      QUIRE_EXCLUDES(write_mutex_);
  StatusOr<DeleteResult> DeleteVersions(std::string_view tenant, const DocumentName& name,
                                        DocumentEventKind why, bool keep_segments);
  /// Accepts expired documents and damaged records, too.
  Status AddTo(const TenantDocument& document, Deletion* deletion);
  /// Segments that the document's extras name.
  StatusOr<std::vector<SegmentKey>> DerivedOf(const TenantDocument& document);
  /// Deletes the documents. Returns the notes of segments without documents.
  StatusOr<Notes> Commit(const Deletion& deletion, bool keep_segments) QUIRE_REQUIRES(write_mutex_);
  /// Removes the segments named by `notes`, and the notes of those that are gone. Returns the
  /// number removed.
  StatusOr<uint32_t> RemoveNoted(const Notes& notes) QUIRE_REQUIRES(write_mutex_);
  /// As RemoveNoted, for the next notes after `*after`. Returns false when there are none.
  StatusOr<bool> SweepSlice(std::string* after, uint32_t* removed) QUIRE_EXCLUDES(write_mutex_);
  bool IsPinned(const std::string& document_key) const QUIRE_REQUIRES(write_mutex_) {
    return pins_.contains(document_key) || waiting_pins_.contains(document_key);
  }
  /// Adds the deletions of a document's rows.
  Status DeleteRows(const Deletion::Entry& entry, MetadataBatch* batch)
      QUIRE_REQUIRES(write_mutex_);
  /// Forgets what memory holds of a deleted document.
  void Forget(const Deletion::Entry& entry) QUIRE_REQUIRES(write_mutex_);
  StatusOr<Extra> ReadExtra(std::string_view tenant, const DocumentName& document,
                            std::string_view name);
  StatusOr<std::vector<SegmentKey>> ReadExtraSegments(std::string_view tenant,
                                                      const DocumentName& document,
                                                      std::string_view name);
  /// Brings a document's segments to DRAM and keeps them there. Does not change notes on disk.
  Status PinInDram(std::string_view tenant, const Document& document) QUIRE_REQUIRES(write_mutex_);
  /// Releases the segments, and cancels a pending pin.
  void ForgetPin(std::string_view tenant, const std::string& document_key)
      QUIRE_REQUIRES(write_mutex_);
  /// A pending pin to retry now; nullopt when there is none.
  std::optional<std::string> DuePin() QUIRE_REQUIRES(write_mutex_);
  Status RestorePin(const std::string& document_key) QUIRE_REQUIRES(write_mutex_);
  /// Puts a document into the index of expiries, where its state has one.
  void Schedule(std::string_view tenant, const Document& document) QUIRE_REQUIRES(write_mutex_);
  /// Withdraws due documents from the agreement. Adds their names after that to `agreed`. Documents
  /// that fail are tried again later, and erased from `due`. Returns the first error.
  Status WithdrawDue(std::vector<TenantDocument>* due, std::map<std::string, AgreedName>* agreed)
      QUIRE_EXCLUDES(write_mutex_);
  /// Adds the due document. Ignores one whose record cannot be read.
  Status AddExpired(const TenantDocument& due, Deletion* deletion) QUIRE_REQUIRES(write_mutex_);
  /// Documents that may have expired.
  std::vector<TenantDocument> PopDue() QUIRE_EXCLUDES(write_mutex_);
  /// Deletes the documents that have expired.
  Status ExpireSlice(const std::vector<TenantDocument>& due,
                     std::map<std::string, AgreedName> agreed, ExpiryResult* result)
      QUIRE_EXCLUDES(write_mutex_);
  /// Retries a failed removal of `due` later.
  void Postpone(const TenantDocument& due) QUIRE_REQUIRES(write_mutex_);
  /// Takes agreed settings of a collection.
  StatusOr<CollectionState> TakeSettings(std::string_view tenant, const Collection& agreed)
      QUIRE_REQUIRES(write_mutex_);
  /// Takes settings that other servers changed, when it is time.
  Status FollowSettings() QUIRE_EXCLUDES(write_mutex_);
  /// Publishes settings from before the server had an agreement.
  Status IntroduceSettings(const AgreedCollections& known) QUIRE_EXCLUDES(write_mutex_);
  CollectionState MakeCollection(std::string_view name, const CollectionSettings& settings) const;
  /// A segment that loses `references`, the keys of its last references. A derived one has none.
  struct Loss {
    std::string_view tenant;
    SegmentKey segment;
    std::set<std::string> references;
  };
  /// True when no other reference is left.
  StatusOr<bool> LosesAll(const Loss& loss);
  /// Segments used only by documents of the deletion.
  StatusOr<std::vector<Loss>> OrphansOf(const Deletion& deletion);
  enum class Orphan { kRemoved, kGone, kStays };
  /// Removes the segment of `note`, a PendingDeleteKey entry.
  Orphan RemoveOrphan(const MetadataEntry& note);

  PageStore* const store_;
  MetadataStore* const metadata_;
  Clock* const clock_;
  DocumentAgreement* const agreement_;   ///< Null: the server is by itself.
  CollectionAgreement* const settings_;  ///< Null likewise.
  const CodecParams default_codec_;
  CollectionTable collections_;
  EventLog events_;
  StatisticsTable statistics_;
  IngestLeases ingests_;
  TagCensus tags_;
  PinnedNames pinned_names_;
  Mutex write_mutex_;
  ExpiryIndex expiries_ QUIRE_GUARDED_BY(write_mutex_);
  /// Pinned segments in DRAM, by DocumentKey.
  std::map<std::string, std::vector<SegmentKey>> pins_ QUIRE_GUARDED_BY(write_mutex_);
  /// Pending pins not yet in DRAM, by DocumentKey, with the time of the next try.
  std::map<std::string, TimePoint> waiting_pins_ QUIRE_GUARDED_BY(write_mutex_);
  Counter registered_, deleted_, expired_, pinned_, pins_waiting_, expiry_failures_,
      orphans_deleted_, ingests_failed_, adopted_, released_, withdrawn_;
  /// Settings up to this revision were taken; time of the next look.
  uint64_t settings_revision_ QUIRE_GUARDED_BY(write_mutex_) = 0;
  TimePoint settings_due_ QUIRE_GUARDED_BY(write_mutex_) = TimePoint::min();
  GoneNames gone_names_;
  Mutex introduction_mutex_;             ///< One introduction at a time. Taken before write_mutex_.
  std::atomic<bool> introduced_{false};  ///< All names had their turn.
  std::string introduced_up_to_ QUIRE_GUARDED_BY(write_mutex_);  ///< Names of former turns.
  std::atomic<uint64_t> orphans_pending_{0};
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_REGISTRY_DOCUMENT_REGISTRY_IMPL_H_
