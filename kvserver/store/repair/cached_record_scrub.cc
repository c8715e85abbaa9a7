// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/repair/cached_record_scrub.h"

#include <string>

namespace quire::kvserver {
namespace {

/// Bytes of records that one step verifies.
constexpr uint64_t kCachedBytesAtOnce = 64 << 10;

}  // namespace

void CachedRecordScrub::Begin() {
  walks_ = parts_.catalog->WalkCached();
  walks_.push_back(parts_.ssd->WalkCached());
}

StatusOr<std::optional<ScrubStep>> CachedRecordScrub::Next() {
  if (walks_.empty()) return std::nullopt;
  ScrubStep step;
  while (step.counts.bytes < kCachedBytesAtOnce) {
    const std::optional<CacheCheck> check = walks_.back()->Next();
    if (!check) {
      walks_.pop_back();
      break;
    }
    step.counts.bytes += check->bytes;
    ++step.counts.checked;
    if (!check->intact) ++step.counts.damaged;
  }
  step.counts.mended = step.counts.damaged;
  if (step.counts.damaged > 0) {
    step.found = std::to_string(step.counts.damaged) +
                 " records in memory: those of the database are used instead; check the memory of "
                 "this machine when it happens again";
  }
  return step;
}

}  // namespace quire::kvserver
