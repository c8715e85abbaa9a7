// SPDX-License-Identifier: Apache-2.0
//
// SendTurns: the order of senders on a connection. Among waiting senders with credit the most
// urgent goes first, and the earliest among equals. A sender without credit delays no other. Only
// one sends at a time, except that a more urgent one may send concurrently. It need not wait for
// the pipe, which may send its frames first.
//
// A policy with its waiting, without I/O. The caller sends between a granted turn and Finish.
// Thread-safety: none; call all methods under the connection's mutex, which Turn::changed waits
// with.
#ifndef QUIRE_TRANSPORT_FRAMES_SEND_TURNS_H_
#define QUIRE_TRANSPORT_FRAMES_SEND_TURNS_H_

#include <cstdint>
#include <list>
#include <set>

#include "common/base/threads/mutex.h"

namespace quire {

class SendTurns {
 public:
  /// A waiting sender; lives on its thread's stack.
  struct Turn {
    int urgency = 0;                  ///< Higher goes first.
    int frame_urgency = 0;            ///< Urgency of its frame; at most `urgency`.
    uint64_t credit_needed = 0;       ///< Bytes of credit that it needs.
    const int64_t* credit = nullptr;  ///< Present credit; null if it needs none.
    bool granted = false;
    CondVar changed = {};

    bool HasCredit() const {
      return credit == nullptr || *credit >= static_cast<int64_t>(credit_needed);
    }
  };

  /// Adds a waiting sender; may grant it at once.
  void Enter(Turn* turn) {
    auto at = waiting_.begin();
    while (at != waiting_.end() && (*at)->urgency >= turn->urgency) ++at;
    waiting_.insert(at, turn);
    Grant();
  }
  /// Removes a waiting sender. REQUIRES: not granted.
  void Leave(Turn* turn) { waiting_.remove(turn); }
  /// Ends a granted turn.
  void Finish(const Turn& turn) {
    sending_.erase(sending_.find(turn.frame_urgency));
    Grant();
  }
  /// Grants waiting turns; call it after adding credit.
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
  std::list<Turn*> waiting_;    ///< Most urgent first.
  std::multiset<int> sending_;  ///< Urgencies of the frames being sent.
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_FRAMES_SEND_TURNS_H_
