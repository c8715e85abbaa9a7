// SPDX-License-Identifier: Apache-2.0
#include "kvserver/session/exchange_state.h"

namespace quire::kvserver {

StatusOr<ExchangeState::Previous> ExchangeState::Recall(uint64_t epoch, uint64_t sequence,
                                                        uint64_t acked_sequence, bool same_wants) {
  QUIRE_RETURN_IF_ERROR(CheckEpoch(epoch));
  const bool acks_pending = pending_ && acked_sequence == committed_ + 1;
  if ((!acks_pending && acked_sequence != committed_) || sequence != acked_sequence + 1) {
    return FailedPrecondition(
        "recall ", sequence, " after ", acked_sequence, ": the session has committed ", committed_,
        pending_ ? " and answered one more" : "", "; resynchronise with a higher epoch");
  }
  if (pending_ && !acks_pending && !same_wants) {
    return FailedPrecondition("recall ", sequence, " was answered with other wants",
                              "; resynchronise with a higher epoch");
  }
  const Previous previous = acks_pending ? Previous::kCommit
                            : pending_   ? Previous::kRollBack
                                         : Previous::kNone;
  committed_ = acked_sequence;
  pending_ = true;
  return previous;
}

StatusOr<ExchangeState::Previous> ExchangeState::Ack(uint64_t epoch, uint64_t sequence) {
  QUIRE_RETURN_IF_ERROR(CheckEpoch(epoch));
  if (pending_ && sequence == committed_ + 1) {
    committed_ = sequence;
    pending_ = false;
    return Previous::kCommit;
  }
  if (sequence == committed_) return Previous::kNone;
  return FailedPrecondition("acknowledgement of ", sequence, ": the session has committed ",
                            committed_, pending_ ? " and answered one more" : "",
                            "; resynchronise with a higher epoch");
}

Status ExchangeState::CheckResync(uint64_t epoch) const {
  if (epoch > epoch_) return OkStatus();
  return FailedPrecondition("resynchronisation under epoch ", epoch, ": the session is at ", epoch_,
                            "; take a higher one");
}

void ExchangeState::Resync(uint64_t epoch, uint64_t sequence) {
  epoch_ = epoch;
  committed_ = sequence;
  pending_ = false;
}

Status ExchangeState::CheckEpoch(uint64_t epoch) const {
  if (epoch == epoch_) return OkStatus();
  return FailedPrecondition("epoch ", epoch, ": the session is at ", epoch_,
                            "; resynchronise with a higher epoch");
}

}  // namespace quire::kvserver
