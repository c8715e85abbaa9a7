// SPDX-License-Identifier: Apache-2.0
//
// ReadEpochs: decides when released space may be rewritten: once every reader that was inside at
// its release has left. Readers never wait, and releases do not either. The last reader that could
// have seen the space returns it.
//
// Thread-safety: all methods may be called concurrently. It takes no other lock. Bounds: one entry
// per reader inside, plus the waiting runs.
#ifndef QUIRE_KVSERVER_STORE_PAYLOAD_READ_EPOCHS_H_
#define QUIRE_KVSERVER_STORE_PAYLOAD_READ_EPOCHS_H_

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "common/base/threads/mutex.h"
#include "kvserver/store/payload/volume/location.h"

namespace quire::kvserver {

class ReadEpochs {
 public:
  using Epoch = uint64_t;

  /// Registers a reader. It passes the epoch to Leave once.
  [[nodiscard]] Epoch Enter();
  /// Removes a reader. Returns runs that can be rewritten now.
  [[nodiscard]] std::vector<BlockRun> Leave(Epoch epoch);
  /// Releases `runs`. REQUIRES: later readers cannot find them. Returns runs that can be rewritten
  /// now: these, when no reader is inside.
  [[nodiscard]] std::vector<BlockRun> Retire(std::span<const BlockRun> runs);

  /// Released bytes that wait for readers.
  uint64_t waiting_bytes() const;

 private:
  /// Readers that entered between two releases, and the runs released after them.
  struct Generation {
    uint64_t readers = 0;
    std::vector<BlockRun> retired;
  };

  std::vector<BlockRun> TakeUnread() QUIRE_REQUIRES(mutex_);

  mutable Mutex mutex_;
  /// Oldest first, never empty. The last one has no released runs yet.
  std::deque<Generation> generations_ QUIRE_GUARDED_BY(mutex_) = {Generation{}};
  Epoch oldest_ QUIRE_GUARDED_BY(mutex_) = 0;
  uint64_t waiting_bytes_ QUIRE_GUARDED_BY(mutex_) = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_PAYLOAD_READ_EPOCHS_H_
