// SPDX-License-Identifier: Apache-2.0
//
// SendTurns: who may send next on a connection. Among those that wait and have credit the most
// urgent goes first, and of those the one that came first. One that has no credit holds up nobody.
// One at a time, but for those that are more urgent than all that is being sent: they do not wait
// for a pipe to take that, since it may let their frames go first.
//
// A policy with its waiting, without I/O: the caller sends between a turn that was granted and
// Finish. Thread-safety: none of its own; all methods are called under the connection's mutex,
// which is the one that Turn::changed waits with.
#ifndef QUIRE_TRANSPORT_FRAMES_SEND_TURNS_H_
#define QUIRE_TRANSPORT_FRAMES_SEND_TURNS_H_

#include <cstdint>
#include <list>
#include <set>

#include "common/base/mutex.h"

namespace quire {

class SendTurns {
 public:
  /// One that waits to send; lives on its thread's stack.
  struct Turn {
    int urgency = 0;                  ///< Higher goes first.
    int frame_urgency = 0;            ///< Of what it sends; at most `urgency`.
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
  /// One that was granted has sent.
  void Finish(const Turn& turn) {
    sending_.erase(sending_.find(turn.frame_urgency));
    Grant();
  }
  /// Somebody may have got credit.
  void Grant() {
    for (auto at = waiting_.begin(); at != waiting_.end();) {
      Turn& turn = **at;
      if (!sending_.empty() && turn.urgency <= *sending_.rbegin()) return;
      if (!turn.HasCredit()) {
        ++at;
        continue;
      }
      at = waiting_.erase(at);
      sending_.insert(turn.frame_urgency);
      turn.granted = true;
      turn.changed.NotifyAll();
    }
  }
  void WakeAll() {
    for (Turn* turn : waiting_) turn->changed.NotifyAll();
  }
  bool busy() const { return !sending_.empty(); }

 private:
  std::list<Turn*> waiting_;    ///< The most urgent first.
  std::multiset<int> sending_;  ///< How urgent what is being sent is.
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_FRAMES_SEND_TURNS_H_
