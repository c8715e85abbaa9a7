// SPDX-License-Identifier: Apache-2.0
//
// DocumentRegistryImpl: the registry over any MetadataStore. References are entries, one for each
// document and segment, rather than counts: writing them twice changes nothing, and the question
// "who still needs this segment" is a scan of one prefix.
//
// A deletion forsakes the documents' orphans in the store, removes the documents and notes the
// orphans as still to be removed in one batch, takes the names back, removes what nobody holds, and
// then the notes; so a crash in between leaves nothing behind for ever. A note is about one
// incarnation: a segment that is put again while it waits is another, which the store does not give
// up. Documents that expire together are deleted many to a batch, in slices between which others
// write.
//
// Whether a document has expired is read from its record and its collection's settings each time;
// the index of expiries, which is rebuilt at open, only says where RemoveExpired is to look.
//
// Locks: `write_mutex_` serialises register, delete, expiry, pins and settings, so that no document
// comes to refer to a segment while it is removed. Get and List do not take it. It is taken before
// any lock of the store.
#ifndef QUIRE_KVSERVER_REGISTRY_DOCUMENT_REGISTRY_IMPL_H_
#define QUIRE_KVSERVER_REGISTRY_DOCUMENT_REGISTRY_IMPL_H_

#include <atomic>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "kvserver/registry/collection_table.h"
#include "kvserver/registry/document_keys.h"
#include "kvserver/registry/document_registry.h"
#include "kvserver/registry/expiry_index.h"

namespace quire::kvserver {

class DocumentRegistryImpl final : public DocumentRegistry {
 public:
  DocumentRegistryImpl(PageStore* store, MetadataStore* metadata, Clock* clock,
                       const CodecParams& default_codec)
      : store_(store),
        metadata_(metadata),
        clock_(clock),
        default_codec_(default_codec),
        collections_(metadata) {}

  StatusOr<RegisterResult> Register(std::string_view tenant, const DocumentName& name,
                                    const SegmentKey& chain_tip, std::string_view content_hash,
                                    std::optional<uint64_t> ttl_seconds) override;
  StatusOr<Document> Get(std::string_view tenant, const DocumentName& name) override;
  StatusOr<ListResult> List(std::string_view tenant, std::string_view collection,
                            uint32_t page_size, std::string_view page_token) override;
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

  /// Reads collections and documents into the index of expiries.
  [[nodiscard]] Status BuildIndex() QUIRE_EXCLUDES(write_mutex_);
  /// Tells the store which segments documents refer to.
  [[nodiscard]] Status RestoreNames();
  /// Reads which documents are pinned; RestorePins brings them to DRAM.
  [[nodiscard]] Status LoadPins() QUIRE_EXCLUDES(write_mutex_);
  /// Removes the segments that are noted as still to be removed, a slice at a time; returns how
  /// many it removed. What cannot be removed now stays noted.
  StatusOr<uint32_t> RemoveOrphans() QUIRE_EXCLUDES(write_mutex_);

 private:
  /// Documents that are deleted in one commit.
  struct Deletion {
    struct Entry {
      TenantDocument document;
      std::vector<SegmentKey> segments;
    };
    static constexpr size_t kMostDocuments = 256;
    static constexpr size_t kMostSegments = 1024;  ///< A longer document goes alone.

    std::vector<Entry> documents;
    size_t num_segments = 0;
    bool IsFull() const {
      return documents.size() >= kMostDocuments || num_segments >= kMostSegments;
    }
  };
  /// Entries of PendingDeleteKey.
  using Notes = std::vector<MetadataEntry>;

  StatusOr<std::vector<DocumentName>> Versions(std::string_view tenant, const DocumentName& name);
  /// Also one that has expired.
  StatusOr<Document> ReadDocument(std::string_view tenant, const DocumentName& name);
  bool HasExpired(const Document& document) const;
  StatusOr<int64_t> ExpiryOfDocument(std::string_view tenant, const Document& document);
  /// Decodes entries of a listing and appends the documents that have not expired.
  Status AppendLive(std::string_view tenant, std::span<const MetadataEntry> entries,
                    std::vector<Document>* documents);
  /// Decides under which version `name` is registered. An expired document in its place is removed;
  /// a live one with this chain is returned.
  StatusOr<std::optional<Document>> ClaimVersion(std::string_view tenant,
                                                 const SegmentKey& chain_tip, DocumentName* name)
      QUIRE_REQUIRES(write_mutex_);
  StatusOr<Document> MakeDocument(std::string_view tenant, const DocumentName& name,
                                  const Chain& chain);
  Status Write(std::string_view tenant, const Document& document, const Chain& chain)
      QUIRE_REQUIRES(write_mutex_);
  /// Also a document that has expired, or whose record is damaged.
  Status AddTo(const TenantDocument& document, Deletion* deletion);
  /// Deletes the documents, and returns the notes of the segments that nobody refers to any more.
  StatusOr<Notes> Commit(const Deletion& deletion, bool keep_segments) QUIRE_REQUIRES(write_mutex_);
  /// Removes the segments that `notes` name, and the notes of those that are gone then; returns how
  /// many it removed.
  StatusOr<uint32_t> RemoveNoted(const Notes& notes) QUIRE_REQUIRES(write_mutex_);
  /// The same for the next notes behind `*after`; false when there are none.
  StatusOr<bool> SweepSlice(std::string* after, uint32_t* removed) QUIRE_EXCLUDES(write_mutex_);
  bool IsPinned(const std::string& document_key) const QUIRE_REQUIRES(write_mutex_) {
    return pins_.contains(document_key) || waiting_pins_.contains(document_key);
  }
  /// Brings a document's segments to DRAM and keeps them there. What is noted on disk stays.
  Status PinInDram(std::string_view tenant, const Document& document) QUIRE_REQUIRES(write_mutex_);
  /// Lets go of them again, and of a pin that waits.
  void ForgetPin(std::string_view tenant, const std::string& document_key)
      QUIRE_REQUIRES(write_mutex_);
  /// A pin that waits and is to be tried now; nullopt when there is none.
  std::optional<std::string> DuePin() QUIRE_REQUIRES(write_mutex_);
  Status RestorePin(const std::string& document_key) QUIRE_REQUIRES(write_mutex_);
  /// Adds what is due. A document whose record cannot be read is left alone.
  Status AddExpired(const TenantDocument& due, Deletion* deletion) QUIRE_REQUIRES(write_mutex_);
  /// Deletes a slice of what has expired; false when nothing has.
  StatusOr<bool> ExpireSlice(ExpiryResult* result) QUIRE_REQUIRES(write_mutex_);
  /// The removal of `due` failed.
  void Postpone(const TenantDocument& due) QUIRE_REQUIRES(write_mutex_);
  CollectionState MakeCollection(std::string_view name, const CollectionSettings& settings) const;
  /// A segment that loses its last references; `references`: the keys of those.
  struct Loss {
    std::string_view tenant;
    SegmentKey segment;
    std::set<std::string> references;
  };
  /// Whether no other reference is left.
  StatusOr<bool> LosesAll(const Loss& loss);
  /// Segments to which only documents of the deletion refer.
  StatusOr<std::vector<Loss>> OrphansOf(const Deletion& deletion);
  enum class Orphan { kRemoved, kGone, kStays };
  /// Removes the segment that `note`, of a PendingDeleteKey, names.
  Orphan RemoveOrphan(const MetadataEntry& note);

  PageStore* const store_;
  MetadataStore* const metadata_;
  Clock* const clock_;
  const CodecParams default_codec_;
  CollectionTable collections_;
  Mutex write_mutex_;
  ExpiryIndex expiries_ QUIRE_GUARDED_BY(write_mutex_);
  /// By DocumentKey: the segments that are pinned in DRAM for it.
  std::map<std::string, std::vector<SegmentKey>> pins_ QUIRE_GUARDED_BY(write_mutex_);
  /// By DocumentKey: documents that are pinned and are not in DRAM yet, and when to try.
  std::map<std::string, TimePoint> waiting_pins_ QUIRE_GUARDED_BY(write_mutex_);
  Counter registered_, deleted_, expired_, pinned_, pins_waiting_, expiry_failures_,
      orphans_deleted_;
  std::atomic<uint64_t> orphans_pending_{0};
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_REGISTRY_DOCUMENT_REGISTRY_IMPL_H_
