// SPDX-License-Identifier: Apache-2.0
//
// MemoryBudget: a bound on bytes held, given out as leases that return them when they go.
// Thread-safety: safe for concurrent use. Ownership: leases keep the budget alive.
#ifndef QUIRE_KVSERVER_SESSION_MEMORY_BUDGET_H_
#define QUIRE_KVSERVER_SESSION_MEMORY_BUDGET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/mutex.h"
#include "common/base/retry_hint.h"
#include "common/base/status.h"

namespace quire::kvserver {

class MemoryBudget : public std::enable_shared_from_this<MemoryBudget> {
 public:
  /// Returns its bytes at destruction.
  using Lease = std::shared_ptr<const void>;

  /// `what` names what is bounded and `option` where the limit is set, for errors.
  MemoryBudget(uint64_t limit_bytes, std::string what, std::string option)
      : limit_bytes_(limit_bytes), what_(std::move(what)), option_(std::move(option)) {}

  /// RESOURCE_EXHAUSTED when fewer than `bytes` are left.
  [[nodiscard]] StatusOr<Lease> Take(uint64_t bytes) {
    MutexLock lock(mutex_);
    if (bytes > limit_bytes_ - used_bytes_) {
      const Status refusal =
          ResourceExhausted(what_, " hold ", used_bytes_, " of ", limit_bytes_, " bytes; ", bytes,
                            " more do not fit: seal or drop some, or raise ", option_);
      return bytes > limit_bytes_ ? refusal : WithRetryAfter(refusal, kRetryWhenFull);
    }
    used_bytes_ += bytes;
    auto self = shared_from_this();
    return Lease(self.get(), [self, bytes](const void*) { self->Return(bytes); });
  }

  uint64_t used_bytes() const {
    MutexLock lock(mutex_);
    return used_bytes_;
  }

 private:
  static constexpr Duration kRetryWhenFull = std::chrono::seconds(1);

  void Return(uint64_t bytes) {
    MutexLock lock(mutex_);
    used_bytes_ -= bytes;
  }

  const uint64_t limit_bytes_;
  const std::string what_;
  const std::string option_;
  mutable Mutex mutex_;
  uint64_t used_bytes_ QUIRE_GUARDED_BY(mutex_) = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_MEMORY_BUDGET_H_
