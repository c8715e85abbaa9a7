// SPDX-License-Identifier: Apache-2.0
//
// RetryOptions: how often and how long a client tries again. A value type.
#ifndef QUIRE_RETRY_OPTIONS_H_
#define QUIRE_RETRY_OPTIONS_H_

#include <chrono>
#include <cstdint>

#include "quire/clock.h"

namespace quire {

struct RetryOptions {
  Duration first_backoff = std::chrono::milliseconds(20);
  Duration max_backoff = std::chrono::seconds(2);
  double multiplier = 2.0;
  double jitter = 0.2;  ///< Each wait is scaled by a factor uniform in [1 - jitter, 1 + jitter].
  uint32_t max_attempts = UINT32_MAX;  ///< At least 1; 1: never retry.
  /// Time for which an unreachable peer (UNAVAILABLE) is tried again, from the first failure. The
  /// deadline of the method ends it in any case.
  Duration unreachable_for = Duration::max();
};

}  // namespace quire

#endif  // QUIRE_RETRY_OPTIONS_H_
