// SPDX-License-Identifier: Apache-2.0
//
// SessionLanding: the memory that the server writes the units of a session's recalls into, where
// the transport lets it. Landed units are handed out as payload in place; the caller treats it
// as any other, up to Applied. Its layout is [sequences][managed layers][n_kv][slots_per_head]
// units. Sequences are by number, and layers in the session's order. A sequence with fewer slots
// has the same room. Made by ClientSession::MakeLanding. Until a recall of a lane has ended, any of
// the lane's places may be written to.
//
// A recall that is given up leaves what may still arrive to the landing (direct_landing.h). Its
// lanes are recalled in messages until nothing can arrive any more.
//
// Ownership: keeps the transport and the memory. Every recall that uses it ends first.
// Thread-safety: that of its bytes.
#ifndef QUIRE_CLIENT_RECALL_LANDING_AREA_H_
#define QUIRE_CLIENT_RECALL_LANDING_AREA_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "client/recall/direct_landing.h"
#include "client/recall/worker_slots.h"
#include "quire/session.h"
#include "quire/session_landing.h"
#include "quire/status.h"
#include "transport/transport.h"

namespace quire::internal {

class NodeSession;
class SessionRecall;
class SessionState;

class LandingArea final : public SessionLanding {
 public:
  uint32_t num_sequences() const override { return num_sequences_; }
  std::span<std::byte> bytes() const override { return memory_.bytes; }
  /// Keeps the memory.
  const std::shared_ptr<const void>& owner() const { return memory_.owner; }
  bool direct() const override { return direct_->get() != nullptr; }
  std::span<std::byte> Unit(uint32_t sequence, uint32_t layer, uint32_t head,
                            uint32_t slot) const override {
    const uint64_t unit = (LaneIndex(sequence, layer) * num_heads_ + head) * slots_per_head_ + slot;
    return memory_.bytes.subspan(unit * unit_bytes_, unit_bytes_);
  }

 private:
  friend class NodeSession;
  friend class SessionState;
  friend class SessionRecall;

  static StatusOr<std::unique_ptr<LandingArea>> Create(const SessionState* session,
                                                       std::shared_ptr<Transport> transport,
                                                       const WorkerSlots& shape,
                                                       uint64_t unit_bytes, uint32_t num_sequences);
  LandingArea(const SessionState* session, std::shared_ptr<Transport> transport,
              const WorkerSlots& shape, uint64_t unit_bytes, uint32_t num_sequences);
  uint64_t LaneIndex(uint32_t sequence, uint32_t layer) const {
    return uint64_t{sequence} * layers_.size() + layers_.IndexOf(layer);
  }

  const SessionState* const session_;  ///< Compared, not used.
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

}  // namespace quire::internal

#endif  // QUIRE_CLIENT_RECALL_LANDING_AREA_H_
