// SPDX-License-Identifier: Apache-2.0
//
// GroupSync: callers that want a sync at the same time share one. A call is served by a round that
// starts after the call; while a round runs, the calls that arrive gather for the next one, which
// the first of them runs.
//
// A failure is final: every later call gets it. After a failed sync the system may have dropped
// what it could not write and report success the next time, so what was written before can never
// be confirmed any more.
//
// Thread-safety: all methods may be called concurrently; the function is never run twice at once.
// No lock is held while it runs.
#ifndef QUIRE_KVSERVER_STORE_PAYLOAD_GROUP_SYNC_H_
#define QUIRE_KVSERVER_STORE_PAYLOAD_GROUP_SYNC_H_

#include <cstdint>
#include <functional>
#include <utility>

#include "common/base/mutex.h"
#include "quire/status.h"

namespace quire::kvserver {

class GroupSync {
 public:
  explicit GroupSync(std::function<Status()> sync) : sync_(std::move(sync)) {}

  /// Returns once a round that started after this call has ended.
  Status Sync() QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const uint64_t needed = started_ + 1;
    while (finished_ < needed && failure_.ok()) {
      if (started_ == finished_) {
        RunRound();
      } else {
        round_ended_.Wait(mutex_);
      }
    }
    return failure_;
  }
  /// OK, or what the round that failed returned.
  Status failure() const QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return failure_;
  }

 private:
  void RunRound() QUIRE_REQUIRES(mutex_) {
    ++started_;
    mutex_.Unlock();
    const Status status = sync_();
    mutex_.Lock();
    if (!status.ok()) failure_ = status;
    finished_ = started_;
    round_ended_.NotifyAll();
  }

  const std::function<Status()> sync_;
  mutable Mutex mutex_;
  CondVar round_ended_;
  uint64_t started_ QUIRE_GUARDED_BY(mutex_) = 0;   ///< Rounds.
  uint64_t finished_ QUIRE_GUARDED_BY(mutex_) = 0;  ///< Rounds; one less while one runs.
  Status failure_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_PAYLOAD_GROUP_SYNC_H_
