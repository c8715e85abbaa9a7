// SPDX-License-Identifier: Apache-2.0
//
// Standing: how soon a segment leaves a tier, by what its callers said of it (hints.h). Lower ones
// leave first.
#ifndef QUIRE_KVSERVER_STORE_POLICY_STANDING_H_
#define QUIRE_KVSERVER_STORE_POLICY_STANDING_H_

#include <cstddef>
#include <cstdint>

#include "quire/hints.h"
#include "quire/key.h"

namespace quire::kvserver {

enum class Standing : uint8_t { kReleased, kLow, kNormal, kHigh, kKept };
inline constexpr size_t kNumStandings = 5;

constexpr Standing StandingOf(KeepPriority priority) {
  if (priority == KeepPriority::kLow) return Standing::kLow;
  return priority == KeepPriority::kHigh ? Standing::kHigh : Standing::kNormal;
}

/// A segment whose standing has changed.
struct StandingChange {
  SegmentKey segment;
  Standing standing = Standing::kNormal;

  bool operator==(const StandingChange&) const = default;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_POLICY_STANDING_H_
