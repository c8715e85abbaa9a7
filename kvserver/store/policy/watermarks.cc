// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/policy/watermarks.h"

namespace quire::kvserver {

StatusOr<Watermarks> Watermarks::Make(uint64_t capacity_bytes, double low, double high) {
  if (!(low > 0 && low <= high && high <= 1)) {
    return InvalidArgument("watermarks low ", low, " and high ", high,
                           ": must be shares of the tier with 0 < low <= high <= 1");
  }
  const auto share = [&](double mark) {
    // A capacity near 2^64 rounds up to 2^64 as a double, which uint64_t does not hold.
    const double bytes = static_cast<double>(capacity_bytes) * mark;
    return bytes < static_cast<double>(capacity_bytes) ? static_cast<uint64_t>(bytes)
                                                       : capacity_bytes;
  };
  return Watermarks(share(low), share(high));
}

uint64_t Watermarks::BytesToEvict(uint64_t used_bytes) {
  if (used_bytes > high_bytes_) evicting_ = true;
  if (used_bytes <= low_bytes_) evicting_ = false;
  return evicting_ ? used_bytes - low_bytes_ : 0;
}

}  // namespace quire::kvserver
