// SPDX-License-Identifier: Apache-2.0
//
// Answered: tells an UNAVAILABLE that a peer itself gave from one of the way to it, which starting
// a server may cure. Transports set the mark. Pure functions.
#ifndef QUIRE_COMMON_BASE_ANSWERED_H_
#define QUIRE_COMMON_BASE_ANSWERED_H_

#include "quire/status.h"

namespace quire {

/// `status` with the mark where it is UNAVAILABLE; any other as it is.
[[nodiscard]] Status Answered(Status status);

[[nodiscard]] bool IsAnswered(const Status& status);

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_ANSWERED_H_
