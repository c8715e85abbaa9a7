// SPDX-License-Identifier: Apache-2.0
//
// Parts of recalls put together and taken apart. Units are not copied. Thread-safety: pure
// functions.
#ifndef QUIRE_CLIENT_RECALL_PART_PIECES_H_
#define QUIRE_CLIENT_RECALL_PART_PIECES_H_

#include "quire/clock.h"
#include "quire/recall.h"
#include "quire/status.h"

namespace quire::internal {

/// Puts the lanes of `part` behind those of `result`.
void AppendPart(RecallPart part, RecallResult* result);

/// ClientSession::Renew of a session that is open; time is taken on `clock`.
[[nodiscard]] Status RenewLeases(RecallPart* part, Duration timeout, Clock& clock);

}  // namespace quire::internal

#endif  // QUIRE_CLIENT_RECALL_PART_PIECES_H_
