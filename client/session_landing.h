// SPDX-License-Identifier: Apache-2.0
//
// SessionLanding: the memory that the server writes the units of a session's recalls into, where
// the transport lets it. What landed is handed out as payload that lies here; the caller treats it
// as any other, up to Applied. It is laid out as [sequences][managed layers][n_kv][slots_per_head]
// units, sequences by number and layers in the order in which the session was opened; a sequence
// with fewer slots has the same room. Made by ClientSession::MakeLanding. Until a recall of a lane
// has ended, any of the lane's places may be written to.
//
// A recall that is given up leaves what may still arrive to the landing (direct_landing.h). Its
// lanes are recalled in messages until nothing can arrive any more.
//
// Ownership: keeps the transport and the memory. Every recall that uses it ends first.
// Thread-safety: that of its bytes.
#ifndef QUIRE_CLIENT_SESSION_LANDING_H_
#define QUIRE_CLIENT_SESSION_LANDING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "client/direct_landing.h"
#include "client/resident_map.h"
#include "common/base/status.h"
#include "transport/transport.h"

namespace quire {

class ClientSession;

class SessionLanding {
 public:
  SessionLanding(const SessionLanding&) = delete;
  SessionLanding& operator=(const SessionLanding&) = delete;

  /// Sequences with lower numbers have their slots here.
  uint32_t num_sequences() const { return num_sequences_; }
  std::span<std::byte> bytes() const { return memory_.bytes; }
  /// Keeps the memory.
  const std::shared_ptr<const void>& owner() const { return memory_.owner; }
  /// Whether the server writes here; not once the session is closed.
  bool direct() const { return direct_->get() != nullptr; }
  /// The place of a slot that there is, of a managed layer.
  std::span<std::byte> Unit(uint32_t sequence, uint32_t layer, uint32_t head, uint32_t slot) const {
    const uint64_t unit = (LaneIndex(sequence, layer) * num_heads_ + head) * slots_per_head_ + slot;
    return memory_.bytes.subspan(unit * unit_bytes_, unit_bytes_);
  }

 private:
  friend class ClientSession;
  friend class PendingRecall;

  static StatusOr<std::unique_ptr<SessionLanding>> Create(const ClientSession* session,
                                                          std::shared_ptr<Transport> transport,
                                                          const ResidentMap& shape,
                                                          uint64_t unit_bytes,
                                                          uint32_t num_sequences);
  SessionLanding(const ClientSession* session, std::shared_ptr<Transport> transport,
                 const ResidentMap& shape, uint64_t unit_bytes, uint32_t num_sequences);
  uint64_t LaneIndex(uint32_t sequence, uint32_t layer) const {
    return uint64_t{sequence} * layers_.size() + layers_.IndexOf(layer);
  }

  const ClientSession* const session_;  ///< Compared, not used.
  const std::shared_ptr<Transport> transport_;
  const ManagedLayers layers_;
  const uint32_t num_heads_;
  const uint32_t slots_per_head_;
  const uint64_t unit_bytes_;
  const uint32_t num_sequences_;
  OwnedMemory memory_;
  /// The session ends it when it is closed. Last: nothing arrives once it is gone.
  const std::shared_ptr<DirectLanding> direct_ = std::make_shared<DirectLanding>();
};

}  // namespace quire

#endif  // QUIRE_CLIENT_SESSION_LANDING_H_
