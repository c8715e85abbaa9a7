// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/policy/pin_table.h"

namespace quire::kvserver {

Status PinTable::Pin(const SegmentKey& segment, uint64_t bytes) {
  const auto it = pins_.find(segment);
  if (it != pins_.end()) {
    ++it->second.count;
    return OkStatus();
  }
  if (bytes > limit_bytes_ - pinned_bytes_) {
    return ResourceExhausted("pins hold ", pinned_bytes_, " of ", limit_bytes_,
                             " bytes and segment ", segment.Hex(), " has ", bytes,
                             "; unpin others or raise the limit");
  }
  pinned_bytes_ += bytes;
  pins_[segment] = {.bytes = bytes, .count = 1};
  return OkStatus();
}

Status PinTable::Unpin(const SegmentKey& segment) {
  const auto it = pins_.find(segment);
  if (it == pins_.end()) return NotFound("segment ", segment.Hex(), " is not pinned");
  if (--it->second.count == 0) Forget(segment);
  return OkStatus();
}

void PinTable::Forget(const SegmentKey& segment) {
  const auto it = pins_.find(segment);
  if (it == pins_.end()) return;
  pinned_bytes_ -= it->second.bytes;
  pins_.erase(it);
}

}  // namespace quire::kvserver
