// SPDX-License-Identifier: Apache-2.0
//
// ExchangeState: the order of a session's recalls, acknowledgements and resynchronisations. It
// decides which requests may go on and what becomes of the changes that are pending; it knows
// nothing of pages.
//
//   committed  the last exchange whose changes both sides have
//   pending    committed + 1, when a recall was answered and not yet acknowledged
//
// A recall names its own number and the last one that the worker applied. It is taken when it is
//   pending + 1, having applied pending: what was pending is committed;
//   committed + 1, having applied committed, while nothing is pending; or
//   the pending recall once more, word for word: the reply was lost and is made again.
// Everything else is stale or from the future: FAILED_PRECONDITION, nothing changes, and the worker
// resynchronises under a higher epoch, which makes every older request stale. A different recall
// under the pending number is refused too: which of the two the worker goes on from could not be
// told, should the network have delayed one of them.
// Thread-safety: none; Session holds its mutex.
#ifndef QUIRE_KVSERVER_SESSION_EXCHANGE_STATE_H_
#define QUIRE_KVSERVER_SESSION_EXCHANGE_STATE_H_

#include <cstdint>

#include "common/base/status.h"

namespace quire::kvserver {

class ExchangeState {
 public:
  /// What to do with the changes that were pending before the request.
  enum class Previous { kNone, kCommit, kRollBack };

  uint64_t epoch() const { return epoch_; }
  uint64_t committed() const { return committed_; }
  bool pending() const { return pending_; }

  /// Takes a recall; `sequence` is pending afterwards. `same_wants`: it asks for what the last
  /// recall taken asked for.
  [[nodiscard]] StatusOr<Previous> Recall(uint64_t epoch, uint64_t sequence,
                                          uint64_t acked_sequence, bool same_wants);
  /// The pending recall failed on the server: the worker may repeat it.
  void Abandon() { pending_ = false; }
  /// The worker applied `sequence`. Acknowledging the committed one again changes nothing.
  [[nodiscard]] StatusOr<Previous> Ack(uint64_t epoch, uint64_t sequence);
  /// Whether Resync would take this epoch; higher than the current one.
  [[nodiscard]] Status CheckResync(uint64_t epoch) const;
  /// The worker's own map replaces the server's; `sequence` is the last exchange it applied.
  void Resync(uint64_t epoch, uint64_t sequence);

 private:
  Status CheckEpoch(uint64_t epoch) const;

  uint64_t epoch_ = 1;
  uint64_t committed_ = 0;
  bool pending_ = false;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_EXCHANGE_STATE_H_
