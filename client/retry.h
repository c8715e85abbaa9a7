// SPDX-License-Identifier: Apache-2.0
//
// Retry policy: when to try again and how long to wait. Pure decisions, no I/O.
#ifndef QUIRE_CLIENT_RETRY_H_
#define QUIRE_CLIENT_RETRY_H_

#include <chrono>
#include <cstdint>

#include "common/base/clock.h"
#include "common/base/random.h"
#include "common/base/status.h"

namespace quire {

struct RetryOptions {
  Duration first_backoff = std::chrono::milliseconds(20);
  Duration max_backoff = std::chrono::seconds(2);
  double multiplier = 2.0;
  double jitter = 0.2;  ///< Each wait is scaled by a factor uniform in [1 - jitter, 1 + jitter].
  uint32_t max_attempts = 8;  ///< At least 1; 1 = never retry.
};

/// True for errors that another attempt may cure: UNAVAILABLE and RESOURCE_EXHAUSTED.
bool IsRetriable(const Status& status);

/// The wait before attempt `attempt` (the second attempt is 1).
Duration Backoff(const RetryOptions& options, uint32_t attempt, Random& random);

}  // namespace quire

#endif  // QUIRE_CLIENT_RETRY_H_
