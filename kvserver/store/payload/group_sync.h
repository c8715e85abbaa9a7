// SPDX-License-Identifier: Apache-2.0
//
// GroupSync: concurrent callers share one sync. A round that starts after a call serves it. Calls
// that arrive during a round gather for the next one, which the first of them runs.
//
// A failure is final: every later call returns it. After a failed sync the system may drop
// unwritten data and report success the next time. Earlier writes can then never be confirmed.
//
// Thread-safety: all methods may be called concurrently. The function never runs twice at once. No
// lock is held while it runs.
#ifndef QUIRE_KVSERVER_STORE_PAYLOAD_GROUP_SYNC_H_
#define QUIRE_KVSERVER_STORE_PAYLOAD_GROUP_SYNC_H_

#include <cstdint>
#include <functional>
#include <utility>

#include "common/base/threads/mutex.h"
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
  /// OK, or the error of the failed round.
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
  uint64_t started_ QUIRE_GUARDED_BY(mutex_) = 0;  ///< Number of rounds started.
  /// Number of rounds finished; one less than started_ while one runs.
  uint64_t finished_ QUIRE_GUARDED_BY(mutex_) = 0;
  Status failure_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_PAYLOAD_GROUP_SYNC_H_
