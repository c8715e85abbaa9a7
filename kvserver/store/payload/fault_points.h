// SPDX-License-Identifier: Apache-2.0
//
// FaultPoints: notified when the store passes a step at which a crash would hurt. A server has no
// listener; torture runs end the process there. Thread-safety: Reached is called from any thread,
// perhaps under a lock of the store. It must not call the store.
#ifndef QUIRE_KVSERVER_STORE_PAYLOAD_FAULT_POINTS_H_
#define QUIRE_KVSERVER_STORE_PAYLOAD_FAULT_POINTS_H_

#include <cstdint>

namespace quire::kvserver {

enum class FaultPoint : uint8_t {
  kVolumeMade,    ///< A new volume is complete under its temporary name.
  kDataWritten,   ///< Bytes are in a volume, and no metadata names them yet.
  kBeforeCommit,  ///< Everything is ready for the commit of a put or a delete.
  kCommitted,     ///< A put or a delete is committed and not yet acknowledged.
  kReleasing,     ///< Space of a committed change is about to be reused.
  kRecovering,    ///< A part of the named payload was restored at open.
};

class FaultPoints {
 public:
  virtual ~FaultPoints() = default;
  virtual void Reached(FaultPoint point) = 0;
};

/// Notifies `points` unless it is null.
inline void Reach(FaultPoints* points, FaultPoint point) {
  if (points != nullptr) points->Reached(point);
}

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_PAYLOAD_FAULT_POINTS_H_
