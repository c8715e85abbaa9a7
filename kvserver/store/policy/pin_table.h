// SPDX-License-Identifier: Apache-2.0
//
// PinTable: pin counts of segments that stay in DRAM. Bytes of pinned segments are bounded, so pins
// cannot fill the tier. Memory is bounded by the pinned segments. Thread-safety: none.
#ifndef QUIRE_KVSERVER_STORE_POLICY_PIN_TABLE_H_
#define QUIRE_KVSERVER_STORE_POLICY_PIN_TABLE_H_

#include <cstdint>
#include <unordered_map>

#include "common/base/status.h"
#include "common/page/key.h"

namespace quire::kvserver {

class PinTable {
 public:
  explicit PinTable(uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  /// Pins `segment`, whose extents take `bytes` bytes together. Repeated pins count its bytes once.
  /// RESOURCE_EXHAUSTED over the limit; nothing changes then.
  [[nodiscard]] Status Pin(const SegmentKey& segment, uint64_t bytes);
  /// Releases one pin. NOT_FOUND when there is none.
  [[nodiscard]] Status Unpin(const SegmentKey& segment);
  /// Releases all pins of a deleted segment.
  void Forget(const SegmentKey& segment);

  bool IsPinned(const SegmentKey& segment) const { return pins_.contains(segment); }
  uint64_t pinned_bytes() const { return pinned_bytes_; }

 private:
  struct Pins {
    uint64_t bytes = 0;
    uint64_t count = 0;
  };
  const uint64_t limit_bytes_;
  uint64_t pinned_bytes_ = 0;
  std::unordered_map<SegmentKey, Pins, SegmentKeyHash> pins_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_POLICY_PIN_TABLE_H_
