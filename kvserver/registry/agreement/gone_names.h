// SPDX-License-Identifier: Apache-2.0
//
// GoneNames: revisions of agreed names without a row here. A row knows the revision that it shows;
// a deleted row cannot, and a late answer would bring its documents back. Only threads of this
// process hold late answers. Memory is therefore enough, and the newest names are. Thread-safety:
// safe for concurrent use.
#ifndef QUIRE_KVSERVER_REGISTRY_AGREEMENT_GONE_NAMES_H_
#define QUIRE_KVSERVER_REGISTRY_AGREEMENT_GONE_NAMES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>

#include "common/base/threads/mutex.h"

namespace quire::kvserver {

class GoneNames {
 public:
  /// The oldest name is forgotten beyond these.
  static constexpr size_t kMostNames = size_t{1} << 15;

  /// Notes a state of a name, by its LatestKey. An older one changes nothing.
  void Note(const std::string& key, uint64_t revision) {
    if (revision == 0) return;
    MutexLock lock(mutex_);
    const auto [entry, is_new] = revisions_.try_emplace(key, revision);
    entry->second = std::max(entry->second, revision);
    if (!is_new) return;
    order_.push_back(key);
    if (order_.size() <= kMostNames) return;
    revisions_.erase(order_.front());
    order_.pop_front();
  }
  /// 0 for a name without a note.
  uint64_t RevisionOf(std::string_view key) const {
    MutexLock lock(mutex_);
    const auto found = revisions_.find(key);
    return found == revisions_.end() ? 0 : found->second;
  }

 private:
  mutable Mutex mutex_;
  std::map<std::string, uint64_t, std::less<>> revisions_ QUIRE_GUARDED_BY(mutex_);
  std::deque<std::string> order_ QUIRE_GUARDED_BY(mutex_);  ///< Oldest first.
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_REGISTRY_AGREEMENT_GONE_NAMES_H_
