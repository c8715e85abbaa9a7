// SPDX-License-Identifier: Apache-2.0
//
// Watermarks: when a tier makes room ahead of need. Eviction starts above the high mark and ends at
// the low mark, so it works in batches and not with every put. Thread-safety: none.
#ifndef QUIRE_KVSERVER_STORE_POLICY_WATERMARKS_H_
#define QUIRE_KVSERVER_STORE_POLICY_WATERMARKS_H_

#include <cstdint>

#include "common/base/status.h"

namespace quire::kvserver {

class Watermarks {
 public:
  /// Marks as shares of `capacity_bytes`. INVALID_ARGUMENT unless 0 < low <= high <= 1.
  static StatusOr<Watermarks> Make(uint64_t capacity_bytes, double low, double high);

  /// Bytes to evict when `used_bytes` are in use: 0, or down to the low mark.
  uint64_t BytesToEvict(uint64_t used_bytes);

  uint64_t low_bytes() const { return low_bytes_; }
  uint64_t high_bytes() const { return high_bytes_; }

 private:
  Watermarks(uint64_t low_bytes, uint64_t high_bytes)
      : low_bytes_(low_bytes), high_bytes_(high_bytes) {}

  uint64_t low_bytes_;
  uint64_t high_bytes_;
  bool evicting_ = false;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_POLICY_WATERMARKS_H_
