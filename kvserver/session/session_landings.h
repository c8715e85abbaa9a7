// SPDX-License-Identifier: Apache-2.0
//
// SessionLandings: the landings of a session's recalls. The first recall into a landing claims it
// for the session. No other session's reply is written there, and its key becomes invalid with the
// session. Thread-safety: safe for concurrent use. Ownership: none; a landing also ends with its
// connection.
#ifndef QUIRE_KVSERVER_SESSION_SESSION_LANDINGS_H_
#define QUIRE_KVSERVER_SESSION_SESSION_LANDINGS_H_

#include <memory>
#include <vector>

#include "common/base/call_landing.h"
#include "common/base/threads/mutex.h"
#include "quire/status.h"

namespace quire::kvserver {

class SessionLandings {
 public:
  SessionLandings() = default;
  SessionLandings(const SessionLandings&) = delete;
  SessionLandings& operator=(const SessionLandings&) = delete;
  ~SessionLandings() { End(); }

  /// PERMISSION_DENIED when another session has it; NOT_FOUND after End.
  [[nodiscard]] Status Use(const std::shared_ptr<CallLanding>& landing) QUIRE_EXCLUDES(mutex_);
  /// Revokes all landings. Idempotent.
  void End() QUIRE_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  bool ended_ QUIRE_GUARDED_BY(mutex_) = false;
  std::vector<std::weak_ptr<CallLanding>> used_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_SESSION_LANDINGS_H_
