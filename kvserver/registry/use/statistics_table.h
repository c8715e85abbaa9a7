// SPDX-License-Identifier: Apache-2.0
//
// StatisticsTable: use of the documents of all tenants, counted in memory and written about once a
// minute. A crash loses what was counted since. Memory is bounded by the documents in use.
// Thread-safety: safe for concurrent use; Flush by one thread at a time, which deletes no document
// meanwhile. Ownership: metadata and clock outlive the table.
#ifndef QUIRE_KVSERVER_REGISTRY_USE_STATISTICS_TABLE_H_
#define QUIRE_KVSERVER_REGISTRY_USE_STATISTICS_TABLE_H_

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "common/base/threads/mutex.h"
#include "kvserver/store/metadata/metadata_store.h"
#include "quire/clock.h"
#include "quire/documents.h"
#include "quire/status.h"

namespace quire::kvserver {

class StatisticsTable {
 public:
  StatisticsTable(MetadataStore* metadata, Clock* clock) : metadata_(metadata), clock_(clock) {}

  /// Reads what was written. A damaged row counts from zero again.
  [[nodiscard]] Status Load() QUIRE_EXCLUDES(mutex_);
  /// Adds counts, and sets the time of the last use.
  void Add(std::string_view tenant, const DocumentName& name, const DocumentStatistics& more)
      QUIRE_EXCLUDES(mutex_);
  DocumentStatistics Get(std::string_view tenant, const DocumentName& name) const
      QUIRE_EXCLUDES(mutex_);
  /// Forgets a document, whose row is deleted.
  void Forget(std::string_view tenant, const DocumentName& name) QUIRE_EXCLUDES(mutex_);
  /// Writes what has changed, when the last time is a minute ago, or `now` is set.
  [[nodiscard]] Status Flush(bool now) QUIRE_EXCLUDES(mutex_);

 private:
  /// Takes some of the changed rows. Forgets those of documents that are gone.
  MetadataBatch NextBatch() QUIRE_EXCLUDES(mutex_);

  MetadataStore* const metadata_;
  Clock* const clock_;
  mutable Mutex mutex_;
  /// By StatisticsKey.
  std::map<std::string, DocumentStatistics, std::less<>> rows_ QUIRE_GUARDED_BY(mutex_);
  std::set<std::string> changed_ QUIRE_GUARDED_BY(mutex_);
  TimePoint flushed_ QUIRE_GUARDED_BY(mutex_) = {};
};

/// Value of a StatisticsKey; checksummed. A damaged one decodes as no use.
[[nodiscard]] std::string EncodeStatistics(const DocumentStatistics& statistics);
[[nodiscard]] DocumentStatistics DecodeStatistics(std::string_view encoded);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_REGISTRY_USE_STATISTICS_TABLE_H_
