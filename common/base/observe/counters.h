// SPDX-License-Identifier: Apache-2.0
//
// Counter: a number that many threads add to. Exporters read counters through metrics.h.
#ifndef QUIRE_COMMON_BASE_OBSERVE_COUNTERS_H_
#define QUIRE_COMMON_BASE_OBSERVE_COUNTERS_H_

#include <atomic>
#include <cstdint>

namespace quire {

/// A monotonic count or a gauge. Thread-safe; reads may lag behind concurrent writes.
class Counter {
 public:
  void Add(uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  void Sub(uint64_t n) { value_.fetch_sub(n, std::memory_order_relaxed); }
  uint64_t Get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_OBSERVE_COUNTERS_H_
