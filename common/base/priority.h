// SPDX-License-Identifier: Apache-2.0
#ifndef QUIRE_COMMON_BASE_PRIORITY_H_
#define QUIRE_COMMON_BASE_PRIORITY_H_

#include <cstddef>
#include <cstdint>

namespace quire {

/// Priority of calls that compete for a server or a connection. Higher values go first.
enum class Priority : uint8_t {
  kPrefetch = 0,  ///< Useful only if it arrives early enough.
  kNormal = 1,
  kCorrection = 2,  ///< A step waits for it.
};
inline constexpr size_t kNumPriorities = 3;

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_PRIORITY_H_
