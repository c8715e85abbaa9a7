// SPDX-License-Identifier: Apache-2.0
//
// PinnedNames: the keys of pinned documents, for listings, which do not wait for writers.
// Thread-safety: safe for concurrent use.
#ifndef QUIRE_KVSERVER_REGISTRY_DRAM_PINNED_NAMES_H_
#define QUIRE_KVSERVER_REGISTRY_DRAM_PINNED_NAMES_H_

#include <set>
#include <string>
#include <string_view>

#include "common/base/threads/mutex.h"

namespace quire::kvserver {

class PinnedNames {
 public:
  void Add(const std::string& document_key) {
    MutexLock lock(mutex_);
    keys_.insert(document_key);
  }
  void Remove(const std::string& document_key) {
    MutexLock lock(mutex_);
    keys_.erase(document_key);
  }
  bool Has(std::string_view document_key) const {
    MutexLock lock(mutex_);
    return keys_.contains(document_key);
  }

 private:
  mutable Mutex mutex_;
  std::set<std::string, std::less<>> keys_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_REGISTRY_DRAM_PINNED_NAMES_H_
