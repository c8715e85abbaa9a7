// SPDX-License-Identifier: Apache-2.0
//
// DocumentRegistryImpl: the registry over any MetadataStore. References are entries, one for each
// document and segment, rather than counts: writing them twice changes nothing, and the question
// "who still needs this segment" is a scan of one prefix.
//
// A deletion removes the document and notes its orphans as still to be removed in one batch,
// removes them from the store, and then the notes; so a crash in between leaves nothing behind for
// ever.
//
// Locks: `write_mutex_` serialises register and delete, so that no document comes to refer to a
// segment while it is removed. Get and List do not take it. It is taken before any lock of the
// store.
#ifndef QUIRE_KVSERVER_REGISTRY_DOCUMENT_REGISTRY_IMPL_H_
#define QUIRE_KVSERVER_REGISTRY_DOCUMENT_REGISTRY_IMPL_H_

#include <atomic>
#include <vector>

#include "common/base/mutex.h"
#include "kvserver/registry/document_registry.h"

namespace quire::kvserver {

class DocumentRegistryImpl final : public DocumentRegistry {
 public:
  DocumentRegistryImpl(PageStore* store, MetadataStore* metadata, Clock* clock)
      : store_(store), metadata_(metadata), clock_(clock) {}

  StatusOr<RegisterResult> Register(std::string_view tenant, const DocumentName& name,
                                    const SegmentKey& chain_tip,
                                    std::string_view content_hash) override;
  StatusOr<Document> Get(std::string_view tenant, const DocumentName& name) override;
  StatusOr<ListResult> List(std::string_view tenant, std::string_view collection,
                            uint32_t page_size, std::string_view page_token) override;
  StatusOr<DeleteResult> Delete(std::string_view tenant, const DocumentName& name,
                                bool keep_segments) override;
  Status CheckUnreferenced(std::string_view tenant, const SegmentKey& key) override;
  Status DeleteSegment(std::string_view tenant, const SegmentKey& key) override;
  void VisitMetrics(MetricsVisitor& visit) const override;

  /// Removes the segments that are noted as still to be removed; returns how many it removed. What
  /// cannot be removed now stays noted.
  StatusOr<uint32_t> RemoveOrphans() QUIRE_EXCLUDES(write_mutex_);

 private:
  StatusOr<std::vector<DocumentName>> Versions(std::string_view tenant, const DocumentName& name);
  StatusOr<Document> ReadDocument(std::string_view tenant, const DocumentName& name);
  StatusOr<Document> MakeDocument(std::string_view tenant, const DocumentName& name,
                                  const Chain& chain, std::string_view content_hash);
  Status Write(std::string_view tenant, const Document& document, const Chain& chain)
      QUIRE_REQUIRES(write_mutex_);
  Status DeleteVersion(std::string_view tenant, const DocumentName& name, bool keep_segments)
      QUIRE_REQUIRES(write_mutex_);
  StatusOr<bool> OnlyReferenceIs(std::string_view tenant, const SegmentKey& segment,
                                 std::string_view reference_key);
  enum class Orphan { kRemoved, kGone, kStays };
  /// Removes the segment that `note`, a PendingDeleteKey, names.
  Orphan RemoveOrphan(std::string_view note);
  StatusOr<uint32_t> RemoveOrphansLocked() QUIRE_REQUIRES(write_mutex_);

  PageStore* const store_;
  MetadataStore* const metadata_;
  Clock* const clock_;
  Mutex write_mutex_;
  Counter registered_, deleted_, orphans_deleted_;
  std::atomic<uint64_t> orphans_pending_{0};
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_REGISTRY_DOCUMENT_REGISTRY_IMPL_H_
