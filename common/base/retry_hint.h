// SPDX-License-Identifier: Apache-2.0
//
// Retry hints: a refusal that clears by itself (a full queue, sessions of others, a budget in use)
// says after how long to try again; a refusal without a hint stays one until somebody acts (a full
// disk, a message over the limit). A refusal with a hint was made before anything was done, so any
// call may be repeated after it. Transports carry the hint. Pure functions.
#ifndef QUIRE_COMMON_BASE_RETRY_HINT_H_
#define QUIRE_COMMON_BASE_RETRY_HINT_H_

#include <optional>

#include "quire/clock.h"
#include "quire/status.h"

namespace quire {

/// `status` with the hint, in whole milliseconds, at least one. REQUIRES: it is not OK.
[[nodiscard]] Status WithRetryAfter(Status status, Duration wait);

/// The hint; nullopt when there is none.
[[nodiscard]] std::optional<Duration> RetryAfter(const Status& status);

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_RETRY_HINT_H_
