// SPDX-License-Identifier: Apache-2.0
//
// ReadEpochs: when released space may be written again: once every reader that was there when it
// was released has left. Readers never wait, and neither does a release; the last reader that could
// have seen the space hands it on.
//
// Thread-safety: all methods may be called concurrently. It takes no other lock.
// Bounds: it keeps at most one entry per reader that is inside, plus the runs that wait.
#ifndef QUIRE_KVSERVER_STORE_PAYLOAD_READ_EPOCHS_H_
#define QUIRE_KVSERVER_STORE_PAYLOAD_READ_EPOCHS_H_

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "common/base/mutex.h"
#include "kvserver/store/payload/location.h"

namespace quire::kvserver {

class ReadEpochs {
 public:
  using Epoch = uint64_t;

  /// A reader comes in. It gives the epoch back to Leave, once.
  [[nodiscard]] Epoch Enter();
  /// A reader goes. The runs returned can be written again.
  [[nodiscard]] std::vector<BlockRun> Leave(Epoch epoch);
  /// `runs` are released: no reader that comes in from now on looks at them. The runs returned can
  /// be written again: those of this call when nobody is inside.
  [[nodiscard]] std::vector<BlockRun> Retire(std::span<const BlockRun> runs);

  /// Bytes that were retired and wait for readers.
  uint64_t waiting_bytes() const;

 private:
  /// Readers that came in between two releases, and what was released after them.
  struct Generation {
    uint64_t readers = 0;
    std::vector<BlockRun> retired;
  };

  std::vector<BlockRun> TakeUnread() QUIRE_REQUIRES(mutex_);

  mutable Mutex mutex_;
  /// Oldest first, never empty; nothing has been retired in the last one yet.
  std::deque<Generation> generations_ QUIRE_GUARDED_BY(mutex_) = {Generation{}};
  Epoch oldest_ QUIRE_GUARDED_BY(mutex_) = 0;
  uint64_t waiting_bytes_ QUIRE_GUARDED_BY(mutex_) = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_PAYLOAD_READ_EPOCHS_H_
