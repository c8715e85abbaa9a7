// SPDX-License-Identifier: Apache-2.0
//
// SpaceBudget: how many payload bytes may be stored, and how many are. Thread-safe, lock-free.
#ifndef QUIRE_KVSERVER_STORE_SPACE_BUDGET_H_
#define QUIRE_KVSERVER_STORE_SPACE_BUDGET_H_

#include <atomic>
#include <cstdint>

namespace quire::kvserver {

class SpaceBudget {
 public:
  /// `limit_bytes` 0: no limit.
  SpaceBudget(uint64_t limit_bytes, uint64_t used_bytes)
      : limit_bytes_(limit_bytes), used_bytes_(used_bytes) {}

  /// Takes `bytes`; false, and nothing is taken, when that would exceed the limit.
  [[nodiscard]] bool TryReserve(uint64_t bytes) {
    uint64_t used = used_bytes_.load(std::memory_order_relaxed);
    do {
      if (limit_bytes_ != 0 && (used > limit_bytes_ || bytes > limit_bytes_ - used)) return false;
    } while (!used_bytes_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    return true;
  }
  void Release(uint64_t bytes) { used_bytes_.fetch_sub(bytes, std::memory_order_relaxed); }

  uint64_t limit_bytes() const { return limit_bytes_; }
  uint64_t used_bytes() const { return used_bytes_.load(std::memory_order_relaxed); }

 private:
  const uint64_t limit_bytes_;
  std::atomic<uint64_t> used_bytes_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_SPACE_BUDGET_H_
