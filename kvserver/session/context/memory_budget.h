// SPDX-License-Identifier: Apache-2.0
//
// MemoryBudget: a bound on bytes in memory, taken as leases that return them at destruction.
// Without room it reclaims some before it refuses. Thread-safety: safe for concurrent use.
// Ownership: leases keep the budget alive.
#ifndef QUIRE_KVSERVER_SESSION_CONTEXT_MEMORY_BUDGET_H_
#define QUIRE_KVSERVER_SESSION_CONTEXT_MEMORY_BUDGET_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/retry_hint.h"
#include "common/base/threads/mutex.h"
#include "quire/status.h"

namespace quire::kvserver {

class MemoryBudget : public std::enable_shared_from_this<MemoryBudget> {
 public:
  /// Returns its bytes at destruction.
  using Lease = std::shared_ptr<const void>;

  /// Frees bytes that are not needed. Returns false when there are none.
  using Reclaim = std::function<bool()>;

  /// For errors, `what` names the bounded bytes and `option` the limit's setting. `reclaim` may be
  /// null; it is called without a lock.
  MemoryBudget(uint64_t limit_bytes, std::string what, std::string option, Reclaim reclaim = {})
      : limit_bytes_(limit_bytes),
        what_(std::move(what)),
        option_(std::move(option)),
        reclaim_(std::move(reclaim)) {}

  /// RESOURCE_EXHAUSTED when fewer than `bytes` are left and none can be reclaimed.
  [[nodiscard]] StatusOr<Lease> Take(uint64_t bytes) {
    while (!TryTake(bytes)) {
      if (bytes <= limit_bytes_ && reclaim_ && reclaim_()) continue;
      const Status refusal =
          ResourceExhausted(what_, " hold ", used_bytes(), " of ", limit_bytes_, " bytes; ", bytes,
                            " more do not fit: seal or drop some, or raise ", option_);
      return bytes > limit_bytes_ ? refusal : WithRetryAfter(refusal, kRetryWhenFull);
    }
    auto self = shared_from_this();
    return Lease(self.get(), [self, bytes](const void*) { self->Return(bytes); });
  }

  uint64_t used_bytes() const {
    MutexLock lock(mutex_);
    return used_bytes_;
  }

 private:
  static constexpr Duration kRetryWhenFull = std::chrono::seconds(1);

  bool TryTake(uint64_t bytes) {
    MutexLock lock(mutex_);
    if (bytes > limit_bytes_ - used_bytes_) return false;
    used_bytes_ += bytes;
    return true;
  }
  void Return(uint64_t bytes) {
    MutexLock lock(mutex_);
    used_bytes_ -= bytes;
  }

  const uint64_t limit_bytes_;
  const std::string what_;
  const std::string option_;
  const Reclaim reclaim_;
  mutable Mutex mutex_;
  uint64_t used_bytes_ QUIRE_GUARDED_BY(mutex_) = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_CONTEXT_MEMORY_BUDGET_H_
