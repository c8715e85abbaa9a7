// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/policy/write_budget.h"

#include <algorithm>

namespace quire::kvserver {

WriteBudget::WriteBudget(const Options& options)
    : bytes_per_second_(static_cast<double>(options.bytes_per_second)),
      burst_bytes_(static_cast<double>(options.burst_bytes)),
      available_bytes_(burst_bytes_) {}

bool WriteBudget::Admit(const SsdWrite& write, TimePoint now) {
  Fill(now);
  const auto bytes = static_cast<double>(write.bytes);
  if (!write.must_persist && bytes > available_bytes_) return false;
  available_bytes_ = std::max(available_bytes_ - bytes, -burst_bytes_);
  return true;
}

void WriteBudget::Fill(TimePoint now) {
  if (filled_ && now > *filled_) {
    // Unsigned: the ends of time are further apart than the largest Duration.
    const auto nanoseconds = static_cast<uint64_t>(now.time_since_epoch().count()) -
                             static_cast<uint64_t>(filled_->time_since_epoch().count());
    const double seconds = static_cast<double>(nanoseconds) / 1e9;
    available_bytes_ = std::min(available_bytes_ + seconds * bytes_per_second_, burst_bytes_);
  }
  if (!filled_ || now > *filled_) filled_ = now;
}

}  // namespace quire::kvserver
