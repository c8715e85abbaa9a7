// SPDX-License-Identifier: Apache-2.0
//
// StagingArea: memory that the server writes recalled units into, where the transport can. Units
// are converted straight from that buffer. Every sequence has a place there for every slot of the
// session, be its own fewer; the area grows as sequences join. Over every other transport there is
// none, and units come in messages.
//
// Thread-safety: none; it belongs to the thread of its session. Ownership: the session outlives it.
#ifndef QUIRE_GPUWORKER_RECALL_STAGING_AREA_H_
#define QUIRE_GPUWORKER_RECALL_STAGING_AREA_H_

#include <cstdint>
#include <memory>

#include "quire/session.h"
#include "quire/status.h"

namespace quire::worker {

class StagingArea {
 public:
  explicit StagingArea(ClientSession* session) : session_(session) {}

  /// Makes room for sequences up to `sequence`. Recalls in flight go on with the room that there
  /// was. Errors as ClientSession::MakeLanding.
  [[nodiscard]] Status Reserve(uint32_t sequence);
  /// Where recalls of the reserved sequences land, for RecallOptions::landing, which it has to
  /// outlive; null when they come in messages.
  const std::shared_ptr<SessionLanding>& landing() const { return landing_; }

 private:
  ClientSession* const session_;
  std::shared_ptr<SessionLanding> landing_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RECALL_STAGING_AREA_H_
