// SPDX-License-Identifier: Apache-2.0
//
// ExchangeState: the order of one lane's recalls and acknowledgements. It decides which requests
// may go on and what becomes of the changes that are pending; it knows nothing of pages.
//
//   last       the last exchange that was taken; every later one has a higher number
//   committed  the last exchange whose changes both sides have
//   pending    the exchange that was answered and that the worker has not spoken of yet, if any
//
// A recall names its own number and the last exchange that the worker applied in the lane. It is
// taken when its number is higher than `last`, and what it applied is
//   pending:    what was pending is committed; or
//   committed:  what is pending is rolled back, because its reply was lost, given up or cancelled.
// Everything else is stale or from the future: FAILED_PRECONDITION, nothing changes, and the worker
// resynchronises. A request that the network repeats or delays is refused by its number, so a
// worker that gives up a recall and asks again under a higher number is never answered out of
// order.
// Thread-safety: none; the lane's claim guards it.
#ifndef QUIRE_KVSERVER_SESSION_EXCHANGE_STATE_H_
#define QUIRE_KVSERVER_SESSION_EXCHANGE_STATE_H_

#include <cstdint>
#include <optional>

#include "quire/status.h"

namespace quire::kvserver {

class ExchangeState {
 public:
  /// What to do with the changes that were pending before the request.
  enum class Previous { kNone, kCommit, kRollBack };

  uint64_t last() const { return last_; }
  uint64_t committed() const { return committed_; }
  std::optional<uint64_t> pending() const { return pending_; }

  /// Whether a recall would be taken.
  [[nodiscard]] Status CheckRecall(uint64_t exchange, uint64_t applied) const;
  /// Takes a recall, which has no changes yet. REQUIRES: CheckRecall is OK.
  Previous Recall(uint64_t exchange, uint64_t applied);
  /// The recall that was taken last has changes from now on.
  void SetPending() { pending_ = last_; }
  /// The recall that was taken last was not answered after all: its number may come again.
  void Abandon() {
    last_ = before_last_;
    pending_.reset();
  }

  /// The worker's own map replaces the server's; `applied` is the last exchange that it applied.
  void Resync(uint64_t applied);

 private:
  uint64_t last_ = 0;
  uint64_t before_last_ = 0;
  uint64_t committed_ = 0;
  std::optional<uint64_t> pending_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_EXCHANGE_STATE_H_
