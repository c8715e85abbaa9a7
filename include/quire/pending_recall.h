// SPDX-License-Identifier: Apache-2.0
//
// PendingRecall: a recall in flight. Its parts come in the order asked, so that the first layer can
// be attended to while the others are on their way. ClientSession::Start makes one.
//
// A recall outlives passing troubles. After UNAVAILABLE, or a refusal with a retry hint, it waits
// and asks again for the missing lanes. After FAILED_PRECONDITION, or a resync of the session, it
// asks again under the new epoch.
//
// Thread-safety: none; it belongs to the thread of its session. Ownership: the session outlives it.
#ifndef QUIRE_PENDING_RECALL_H_
#define QUIRE_PENDING_RECALL_H_

#include <optional>

#include "quire/clock.h"
#include "quire/recall.h"
#include "quire/status.h"

namespace quire {

class PendingRecall {
 public:
  /// Cancels.
  virtual ~PendingRecall() = default;

  /// The end of the recall, on the client's clock.
  virtual TimePoint deadline() const = 0;
  /// Waits for the next part; nullopt when all lanes have come. DEADLINE_EXCEEDED when `deadline`
  /// passed first: the recall goes on and Next may be called again, unless its own time is up. Any
  /// other error ends the recall, and Next returns it again:
  ///   CANCELLED  Cancel was called
  ///   DATA_LOSS  a part breaks the protocol or a checksum
  ///   INTERNAL   the landing's memory has failed, or a part cannot be parsed
  /// The rest are Client's.
  [[nodiscard]] virtual StatusOr<std::optional<RecallPart>> Next(TimePoint deadline) = 0;
  [[nodiscard]] StatusOr<std::optional<RecallPart>> Next() { return Next(deadline()); }
  /// Gives up the missing lanes, which may be asked for again at once.
  virtual void Cancel() = 0;

 protected:
  PendingRecall() = default;
  PendingRecall(const PendingRecall&) = delete;
  PendingRecall& operator=(const PendingRecall&) = delete;
};

}  // namespace quire

#endif  // QUIRE_PENDING_RECALL_H_
