// SPDX-License-Identifier: Apache-2.0
//
// SessionLandings: the landings that a session's recalls are written into. One is the session's
// from its first recall on: no other session's reply goes there, and its key ends with the session.
// Thread-safety: safe for concurrent use. Ownership: of nothing; a landing ends with its connection
// as well.
#ifndef QUIRE_KVSERVER_SESSION_SESSION_LANDINGS_H_
#define QUIRE_KVSERVER_SESSION_SESSION_LANDINGS_H_

#include <memory>
#include <vector>

#include "common/base/call_landing.h"
#include "common/base/mutex.h"
#include "quire/status.h"

namespace quire::kvserver {

class SessionLandings {
 public:
  SessionLandings() = default;
  SessionLandings(const SessionLandings&) = delete;
  SessionLandings& operator=(const SessionLandings&) = delete;
  ~SessionLandings() { End(); }

  /// PERMISSION_DENIED when it is another session's; NOT_FOUND after End.
  [[nodiscard]] Status Use(const std::shared_ptr<CallLanding>& landing) QUIRE_EXCLUDES(mutex_);
  /// Revokes them all. Idempotent.
  void End() QUIRE_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  bool ended_ QUIRE_GUARDED_BY(mutex_) = false;
  std::vector<std::weak_ptr<CallLanding>> used_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_SESSION_LANDINGS_H_
