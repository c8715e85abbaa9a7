// SPDX-License-Identifier: Apache-2.0
//
// ReadCounts: reads of documents since the last look. A context that was opened by a document's
// name keeps the name's count and adds to it, without a lock. All versions of a name have one
// count. Memory is bounded by the names in use. Thread-safety: all methods may be called
// concurrently.
#ifndef QUIRE_KVSERVER_SESSION_CONTEXT_READ_COUNTS_H_
#define QUIRE_KVSERVER_SESSION_CONTEXT_READ_COUNTS_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/threads/mutex.h"
#include "common/documents/document_reads.h"
#include "quire/documents.h"

namespace quire::kvserver {

using ReadCount = std::atomic<uint64_t>;

class ReadCounts {
 public:
  std::shared_ptr<ReadCount> Of(std::string_view tenant, const DocumentName& name)
      QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    std::shared_ptr<ReadCount>& count = counts_[{std::string(tenant), name.collection, name.name}];
    if (count == nullptr) count = std::make_shared<ReadCount>(0);
    return count;
  }
  /// Names that were read since the last call. Forgets those that nobody uses any more.
  std::vector<DocumentReads> Take() QUIRE_EXCLUDES(mutex_) {
    std::vector<DocumentReads> taken;
    MutexLock lock(mutex_);
    std::erase_if(counts_, [&](auto& entry) {
      auto& [name, count] = entry;
      const uint64_t reads = count->exchange(0, std::memory_order_relaxed);
      if (reads > 0) taken.push_back({.name = name, .reads = reads});
      // A new user needs the lock.
      return reads == 0 && count.use_count() == 1;
    });
    return taken;
  }

 private:
  Mutex mutex_;
  std::map<ReadName, std::shared_ptr<ReadCount>> counts_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_CONTEXT_READ_COUNTS_H_
