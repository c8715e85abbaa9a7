// SPDX-License-Identifier: Apache-2.0
//
// SealedContexts: contexts that a client sealed and has not registered yet. A registration names
// one, and the server ends that one's hold of its segments. The holds of other clients that sealed
// the same chain stay. Thread-safety: safe for concurrent use.
#ifndef QUIRE_CLIENT_SEALED_CONTEXTS_H_
#define QUIRE_CLIENT_SEALED_CONTEXTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>

#include "common/base/threads/mutex.h"
#include "quire/key.h"

namespace quire::internal {

class SealedContexts {
 public:
  /// Contexts that it remembers. The server ends the holds of forgotten ones after their time.
  static constexpr size_t kMost = 256;

  void Add(const SegmentKey& tip, uint64_t context_id) {
    MutexLock lock(mutex_);
    // A repeated seal answers the same.
    if (std::ranges::find(sealed_, context_id, &Sealed::context_id) != sealed_.end()) return;
    sealed_.push_back({tip, context_id});
    if (sealed_.size() > kMost) sealed_.pop_front();
  }

  /// Removes and returns one whose chain ends with `tip`; 0 when there is none.
  uint64_t Take(const SegmentKey& tip) {
    MutexLock lock(mutex_);
    const auto found = std::ranges::find(sealed_, tip, &Sealed::tip);
    if (found == sealed_.end()) return 0;
    const uint64_t context_id = found->context_id;
    sealed_.erase(found);
    return context_id;
  }

 private:
  struct Sealed {
    SegmentKey tip;
    uint64_t context_id = 0;
  };
  Mutex mutex_;
  std::deque<Sealed> sealed_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::internal

#endif  // QUIRE_CLIENT_SEALED_CONTEXTS_H_
