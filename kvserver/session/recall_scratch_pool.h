// SPDX-License-Identifier: Apache-2.0
//
// RecallScratchPool: memory for the recalls of a server, lent to one at a time. It keeps as many
// scratches as there were concurrent recalls, up to a bound, and none that grew unusually large.
// Thread-safety: safe for concurrent use. Ownership: outlives its leases.
#ifndef QUIRE_KVSERVER_SESSION_RECALL_SCRATCH_POOL_H_
#define QUIRE_KVSERVER_SESSION_RECALL_SCRATCH_POOL_H_

#include <memory>
#include <utility>
#include <vector>

#include "common/base/threads/mutex.h"
#include "kvserver/session/recall_run.h"

namespace quire::kvserver {

class RecallScratchPool {
 public:
  static constexpr size_t kMaxIdle = 64;
  static constexpr size_t kMaxKeptBytes = size_t{4} << 20;

  class Lease {
   public:
    Lease(RecallScratchPool* pool, std::unique_ptr<RecallScratch> scratch)
        : pool_(pool), scratch_(std::move(scratch)) {}
    Lease(Lease&&) noexcept = default;
    Lease& operator=(Lease&&) = delete;
    ~Lease() {
      if (scratch_ != nullptr) pool_->Return(std::move(scratch_));
    }
    RecallScratch& operator*() const { return *scratch_; }

   private:
    RecallScratchPool* const pool_;
    std::unique_ptr<RecallScratch> scratch_;
  };

  Lease Take() QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (idle_.empty()) return Lease(this, std::make_unique<RecallScratch>());
    std::unique_ptr<RecallScratch> scratch = std::move(idle_.back());
    idle_.pop_back();
    return Lease(this, std::move(scratch));
  }

 private:
  void Return(std::unique_ptr<RecallScratch> scratch) QUIRE_EXCLUDES(mutex_) {
    scratch->Clear();
    if (scratch->capacity_bytes() > kMaxKeptBytes) return;
    MutexLock lock(mutex_);
    if (idle_.size() < kMaxIdle) idle_.push_back(std::move(scratch));
  }

  Mutex mutex_;
  std::vector<std::unique_ptr<RecallScratch>> idle_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_RECALL_SCRATCH_POOL_H_
