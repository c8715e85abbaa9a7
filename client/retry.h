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

/// Whether a call may be sent again although it may have been carried out.
enum class Repeat : uint8_t {
  kSafe,          ///< Doing it twice is the same as doing it once.
  kOnlyIfRefused  ///< Only what the server refused before it began may be sent again.
};

/// Whether another attempt may cure `status`: refusals that carry a retry hint (retry_hint.h), and
/// UNAVAILABLE where a repetition is safe.
bool IsRetriable(const Status& status, Repeat repeat);

/// The wait after attempt `attempt` (from 1) ended with `status`: exponential, and at least as long
/// as the status's retry hint asks.
Duration WaitAfter(const Status& status, const RetryOptions& options, uint32_t attempt,
                   Random& random);

}  // namespace quire

#endif  // QUIRE_CLIENT_RETRY_H_
