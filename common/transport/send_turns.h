// SPDX-License-Identifier: Apache-2.0
//
// SendTurns: who may send next on a connection. One at a time; among those that wait and have
// credit the most urgent goes first, and of those the one that came first. One that has no credit
// holds up nobody.
//
// A policy with its waiting, without I/O: the caller sends between a turn that was granted and
// Finish. Thread-safety: none of its own; all methods are called under the connection's mutex,
// which is the one that Turn::changed waits with.
#ifndef QUIRE_COMMON_TRANSPORT_SEND_TURNS_H_
#define QUIRE_COMMON_TRANSPORT_SEND_TURNS_H_

#include <cstdint>
#include <list>

#include "common/base/mutex.h"

namespace quire {

class SendTurns {
 public:
  /// One that waits to send; lives on its thread's stack.
  struct Turn {
    int urgency = 0;                  ///< Higher goes first.
    uint64_t credit_needed = 0;       ///< In bytes.
    const int64_t* credit = nullptr;  ///< What there is; null when none is needed.
    bool granted = false;
    CondVar changed = {};

    bool HasCredit() const {
      return credit == nullptr || *credit >= static_cast<int64_t>(credit_needed);
    }
  };

  /// Waits from now on; it may be granted at once.
  void Enter(Turn* turn) {
    auto at = waiting_.begin();
    while (at != waiting_.end() && (*at)->urgency >= turn->urgency) ++at;
    waiting_.insert(at, turn);
    Grant();
  }
  /// Gives up. REQUIRES: it has not been granted.
  void Leave(Turn* turn) { waiting_.remove(turn); }
  /// The one that was granted has sent.
  void Finish() {
    busy_ = false;
    Grant();
  }
  /// Somebody may have got credit.
  void Grant() {
    if (busy_) return;
    for (auto at = waiting_.begin(); at != waiting_.end(); ++at) {
      Turn& turn = **at;
      if (!turn.HasCredit()) continue;
      waiting_.erase(at);
      busy_ = turn.granted = true;
      turn.changed.NotifyAll();
      return;
    }
  }
  void WakeAll() {
    for (Turn* turn : waiting_) turn->changed.NotifyAll();
  }
  bool busy() const { return busy_; }

 private:
  std::list<Turn*> waiting_;  ///< The most urgent first.
  bool busy_ = false;
};

}  // namespace quire

#endif  // QUIRE_COMMON_TRANSPORT_SEND_TURNS_H_
