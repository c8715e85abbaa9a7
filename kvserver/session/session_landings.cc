// SPDX-License-Identifier: Apache-2.0
#include "kvserver/session/session_landings.h"

#include <algorithm>
#include <utility>

namespace quire::kvserver {

Status SessionLandings::Use(const std::shared_ptr<CallLanding>& landing) {
  MutexLock lock(mutex_);
  if (ended_) return NotFound("the session has been closed");
  if (!landing->Claim(this)) {
    return PermissionDenied("the landing is another session's: announce one for each session");
  }
  const auto is_it = [&](const auto& used) { return used.lock() == landing; };
  if (std::ranges::any_of(used_, is_it)) return OkStatus();
  std::erase_if(used_, [](const auto& used) { return used.expired(); });
  used_.push_back(landing);
  return OkStatus();
}

void SessionLandings::End() {
  std::vector<std::weak_ptr<CallLanding>> used;
  {
    MutexLock lock(mutex_);
    ended_ = true;
    used.swap(used_);
  }
  for (const auto& one : used) {
    if (const auto landing = one.lock()) landing->Revoke();
  }
}

}  // namespace quire::kvserver
