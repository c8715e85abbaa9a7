// SPDX-License-Identifier: Apache-2.0
//
// Hints: what a caller knows of the future of the pages that it puts or reads. They decide the
// order in which pages leave a tier, and nothing else: no call fails for want of what they ask.
// Plain values.
#ifndef QUIRE_HINTS_H_
#define QUIRE_HINTS_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace quire {

inline constexpr size_t kMaxConversationBytes = 256;
inline constexpr uint64_t kMaxKeepSeconds = 30ull * 24 * 3600;

/// Order in which pages leave: lower ones first.
enum class KeepPriority : uint8_t { kLow = 1, kNormal = 2, kHigh = 3 };

/// The last hints of a conversation hold for all its pages. Pages of several conversations leave as
/// late as the one that keeps them longest.
struct Hints {
  /// The agent or user whose turns use the pages: what engines call a session id. UTF-8, at most
  /// kMaxConversationBytes. Empty: the hints are about the pages alone.
  std::string conversation = {};
  KeepPriority priority = KeepPriority::kNormal;
  /// The pages leave after all others for this long from now on, as after a call of a tool. At most
  /// kMaxKeepSeconds; 0: their priority decides.
  uint64_t keep_seconds = 0;

  bool operator==(const Hints&) const = default;
  bool empty() const { return *this == Hints(); }
};

/// Progress of the prefetch of a conversation.
struct PrefetchProgress {
  uint32_t segments_done = 0;
  uint32_t num_segments = 0;
  uint64_t bytes_done = 0;
  uint32_t segments_not_fitting = 0;
  uint32_t segments_in_dram = 0;
};

}  // namespace quire

#endif  // QUIRE_HINTS_H_
