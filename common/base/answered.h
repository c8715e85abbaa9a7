// SPDX-License-Identifier: Apache-2.0
//
// Answered: marks an UNAVAILABLE status that the peer itself sent. Without the mark the peer could
// not be reached, and starting a server may help. Transports set the mark. Pure functions.
#ifndef QUIRE_COMMON_BASE_ANSWERED_H_
#define QUIRE_COMMON_BASE_ANSWERED_H_

#include "common/base/status.h"

namespace quire {

/// Returns `status` with the mark when its code is UNAVAILABLE, and unchanged otherwise.
[[nodiscard]] Status Answered(Status status);

[[nodiscard]] bool IsAnswered(const Status& status);

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_ANSWERED_H_
