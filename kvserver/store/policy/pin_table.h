// SPDX-License-Identifier: Apache-2.0
//
// PinTable: segments that stay in DRAM until they are unpinned, each as often as it was pinned. The
// bytes that pins hold are bounded, so that pins cannot take the tier away from everybody else.
// Memory is bounded by the pinned segments. Thread-safety: none.
#ifndef QUIRE_KVSERVER_STORE_POLICY_PIN_TABLE_H_
#define QUIRE_KVSERVER_STORE_POLICY_PIN_TABLE_H_

#include <cstdint>
#include <unordered_map>

#include "quire/key.h"
#include "quire/status.h"

namespace quire::kvserver {

class PinTable {
 public:
  explicit PinTable(uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  /// Pins `segment`, whose extents take `bytes` bytes together; they count once however often it is
  /// pinned. RESOURCE_EXHAUSTED over the limit, and nothing changes.
  [[nodiscard]] Status Pin(const SegmentKey& segment, uint64_t bytes);
  /// Takes one pin back. NOT_FOUND when there is none.
  [[nodiscard]] Status Unpin(const SegmentKey& segment);
  /// Takes all its pins back: the segment was deleted.
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
