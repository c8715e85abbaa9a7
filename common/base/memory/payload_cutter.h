// SPDX-License-Identifier: Apache-2.0
//
// PayloadCutter: cuts pieces off the front of a payload, without copying bytes. Thread-safety:
// none. Ownership: the payload outlives the cutter. The pieces share the owners of their bytes, but
// not the leases.
#ifndef QUIRE_COMMON_BASE_MEMORY_PAYLOAD_CUTTER_H_
#define QUIRE_COMMON_BASE_MEMORY_PAYLOAD_CUTTER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "quire/payload.h"

namespace quire {

class PayloadCutter {
 public:
  explicit PayloadCutter(const Payload& payload) : slices_(payload.slices()) {}

  /// Cuts off the next `bytes`. REQUIRES: the payload has that many more.
  Payload Cut(uint64_t bytes) {
    Payload cut;
    while (bytes > 0) {
      const Slice& slice = slices_[next_];
      const auto take = std::min<uint64_t>(bytes, slice.bytes.size() - offset_);
      cut.Append(Slice{slice.bytes.subspan(offset_, take), slice.owner});
      bytes -= take;
      offset_ += take;
      if (offset_ < slice.bytes.size()) continue;
      ++next_;
      offset_ = 0;
    }
    return cut;
  }

 private:
  const std::vector<Slice>& slices_;
  size_t next_ = 0;
  uint64_t offset_ = 0;
};

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_MEMORY_PAYLOAD_CUTTER_H_
