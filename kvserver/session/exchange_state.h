// SPDX-License-Identifier: Apache-2.0
//
// ExchangeState: the order of one lane's recalls and acknowledgements. It decides which requests
// may proceed, and what happens to pending changes. It knows nothing of pages.
//
//   last       the last accepted exchange; every later one has a higher number
//   committed  the last exchange whose changes both sides have
//   pending    the answered exchange that the worker has not acknowledged yet, if any
//
// A recall has its own number and the last exchange that the worker applied in the lane. It is
// accepted when its number is higher than `last`, and the applied exchange is
//   pending:    the pending changes are committed; or
//   committed:  the pending changes are rolled back, because their reply was lost, given up or
//               cancelled.
// Any other request is stale or invalid: FAILED_PRECONDITION, nothing changes, and the worker
// resynchronises. Numbers also refuse requests that the network repeats or delays. A worker that
// gives up a recall and retries under a higher number never gets replies out of order.
// Thread-safety: none; the lane's claim guards it.
#ifndef QUIRE_KVSERVER_SESSION_EXCHANGE_STATE_H_
#define QUIRE_KVSERVER_SESSION_EXCHANGE_STATE_H_

#include <cstdint>
#include <optional>

#include "common/base/status.h"

namespace quire::kvserver {

class ExchangeState {
 public:
  /// Action on the changes that were pending before the request.
  enum class Previous { kNone, kCommit, kRollBack };

  uint64_t last() const { return last_; }
  uint64_t committed() const { return committed_; }
  std::optional<uint64_t> pending() const { return pending_; }

  /// OK when the recall would be accepted.
  [[nodiscard]] Status CheckRecall(uint64_t exchange, uint64_t applied) const;
  /// Accepts a recall, which has no changes yet. REQUIRES: CheckRecall is OK.
  Previous Recall(uint64_t exchange, uint64_t applied);
  /// Marks the last recall as having changes.
  void SetPending() { pending_ = last_; }
  /// Undoes the acceptance of the last recall, which was not answered. Its number may be used
  /// again.
  void Abandon() {
    last_ = before_last_;
    pending_.reset();
  }

  /// Replaces the server's state by the worker's. `applied` is the last exchange that it applied.
  void Resync(uint64_t applied);

 private:
  uint64_t last_ = 0;
  uint64_t before_last_ = 0;
  uint64_t committed_ = 0;
  std::optional<uint64_t> pending_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_EXCHANGE_STATE_H_
