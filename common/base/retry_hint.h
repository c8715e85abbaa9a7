// SPDX-License-Identifier: Apache-2.0
//
// Retry hints: a transient refusal (full queue, other sessions, budget in use) says when to try
// again. A refusal without a hint needs an operator or another request (full disk, message over the
// limit). A refusal with a hint was made before any change, so every call may be repeated after it.
// Transports carry the hint. Pure functions.
#ifndef QUIRE_COMMON_BASE_RETRY_HINT_H_
#define QUIRE_COMMON_BASE_RETRY_HINT_H_

#include <optional>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace quire {

/// Adds the hint to `status`, in whole milliseconds, at least one. REQUIRES: `status` is not OK.
[[nodiscard]] Status WithRetryAfter(Status status, Duration wait);

/// Returns the hint; nullopt when there is none.
[[nodiscard]] std::optional<Duration> RetryAfter(const Status& status);

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_RETRY_HINT_H_
